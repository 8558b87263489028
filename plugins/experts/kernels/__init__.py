"""Triton kernels of the expert feed-forward.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and use
the torch reference where the answer is no.

Four launches, none of which needs anything from the host but shapes, so that a CUDA graph replays
them for any routing: :mod:`.plan` groups the slots by expert, :mod:`.gate_up` and :mod:`.down` are
the two grouped matrix products, :mod:`.combine` adds up each row's slots.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....core.triton_probe import kernels_usable

_INSTEAD = "experts are computed by slower torch operators"


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can work on ``tensor``: on CUDA, of a common dtype, Triton in order."""
    return kernels_usable(tensor, _trial, _INSTEAD)


def _trial(device: torch.device) -> None:
    """Launch the smallest kernel."""
    from .combine import combine

    slots = torch.zeros(1, 1, dtype=torch.int64, device=device)
    combine(torch.ones(1, 16, device=device), slots, experts=1)
