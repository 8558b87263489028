"""Triton kernels of ``MacsCapacity``: a fixed row of launches the host never waits for.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and have
the reference for every other case, which also says what the kernels must compute.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....core.triton_probe import triton_works

_INSTEAD = "expert capacities use slow torch operators"


def usable(hidden: Tensor) -> bool:
    """Whether the kernels can work on ``hidden``: on CUDA, and Triton is in order there."""
    return hidden.is_cuda and triton_works(hidden.device, _trial, _INSTEAD)


def _trial(device: torch.device) -> None:
    """Launch the smallest kernel."""
    from .entropy import row_entropy

    row_entropy(torch.ones(1, 16, device=device), *torch.ones(2, 1, device=device).bool())
