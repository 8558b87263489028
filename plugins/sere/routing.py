"""Re-routing by the fastest form that works where the tensors are."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core.triton_probe import triton_works
from . import reference

_MAX_EXPERTS = 512  # of the kernel
_INSTEAD = "experts are re-routed by slower torch operators"


def sere_routing(
    expert_ids: Tensor,
    similarity: Tensor,
    protected: Tensor,
    decode_rows: Tensor,
    top_k: Tensor,
    threshold: Tensor,
    totals: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`~edgevlm.plugins.sere.reference.reroute`, by one kernel where that is usable.

    Args:
        totals: ``[2]`` int64 that the counts are added to. It is then returned in their place;
            the kernel adds for nothing, and counts faster so.
    """
    given = (expert_ids, similarity, protected, decode_rows, top_k, threshold)
    fits = expert_ids.is_cuda and similarity.shape[0] <= _MAX_EXPERTS
    fits = fits and similarity.is_contiguous() and protected.is_contiguous()
    if not fits or not triton_works(expert_ids.device, _trial, _INSTEAD):
        routed, active = reference.reroute(*given)
        return routed, active if totals is None else totals.add_(active)
    from .kernel import reroute

    ids, rows = expert_ids.contiguous(), decode_rows.contiguous()
    return reroute(ids, similarity, protected, rows, top_k, threshold, totals)


def _trial(device: torch.device) -> None:
    """Launch the smallest kernel."""
    from .kernel import reroute

    flags = torch.zeros(2, dtype=torch.bool, device=device)
    ids = torch.tensor([[0, 1]], device=device)
    reroute(ids, torch.ones(2, 2, device=device), flags, flags[:1], ids[0, 1:], ids[0, :1] * 1.0)
