"""Triton kernels: the parts of pruning worth more on a GPU than a sequence of torch operators.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and have
a torch path for every other case, which also says what a kernel must compute.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...core.triton_probe import kernels_usable

_INSTEAD = "visual pruning uses slower torch operators"


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can work on ``tensor``: on CUDA, of a common dtype, Triton in order."""
    return kernels_usable(tensor, _trial, _INSTEAD)


def _trial(device: torch.device) -> None:
    """Launch the smallest kernel."""
    from .norms import row_norms

    row_norms(torch.ones(1, 16, device=device))
