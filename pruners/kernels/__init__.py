"""Triton kernels: the parts of pruning worth more on a GPU than a sequence of torch operators.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and have
a torch path for every other case, which also says what a kernel must compute.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...core.triton_probe import triton_works

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_INSTEAD = "visual pruning uses slower torch operators"


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can work on ``tensor``: on CUDA, of a common dtype, Triton in order."""
    fits = tensor.is_cuda and tensor.dtype in _DTYPES
    return fits and triton_works(tensor.device, _trial, _INSTEAD)


def _trial(device: torch.device) -> None:
    """Launch the smallest kernel."""
    from .norms import row_norms

    row_norms(torch.ones(1, 16, device=device))
