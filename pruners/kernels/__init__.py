"""Triton kernels: the parts of pruning worth more on a GPU than a sequence of torch operators.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and have
a torch path for every other case, which also says what a kernel must compute.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can work on ``tensor``: on CUDA, of a common dtype, Triton in order."""
    return tensor.is_cuda and tensor.dtype in _DTYPES and _triton_works(tensor.device)


@cache
def _triton_works(device: torch.device) -> bool:
    """Try once. Triton may be absent, lack a C compiler for its launchers, or not know the GPU."""
    if find_spec("triton") is None:
        return False
    try:
        from .norms import row_norms

        row_norms(torch.ones(1, 16, device=device))
        torch.cuda.synchronize(device)
    except Exception as error:
        logging.getLogger(__name__).warning(
            "Triton does not work on %s, visual pruning uses slower torch operators: %s: %s",
            device,
            type(error).__name__,
            error,
        )
        return False
    return True
