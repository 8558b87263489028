"""Re-routing by the fastest form that works where the tensors are."""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from . import reference

_MAX_EXPERTS = 512  # of the kernel


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
    if not fits or not _triton_works(expert_ids.device):
        routed, active = reference.reroute(*given)
        return routed, active if totals is None else totals.add_(active)
    from .kernel import reroute

    prepared = [tensor.contiguous() for tensor in given]
    return reroute(*prepared, *([] if totals is None else [totals]))


@cache
def _triton_works(device: torch.device) -> bool:
    """Try once. Triton may be absent, lack a C compiler for its launchers, or not know the GPU."""
    if find_spec("triton") is None:
        return False
    try:
        from .kernel import reroute

        flags = torch.zeros(2, dtype=torch.bool, device=device)
        ids = torch.tensor([[0, 1]], device=device)
        reroute(
            ids, torch.ones(2, 2, device=device), flags, flags[:1], ids[0, 1:], ids[0, :1] * 1.0
        )
        torch.cuda.synchronize(device)
    except Exception as error:
        logging.getLogger(__name__).warning(
            "Triton does not work on %s, experts are re-routed by slower torch operators: %s: %s",
            device,
            type(error).__name__,
            error,
        )
        return False
    return True
