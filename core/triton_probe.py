"""Whether Triton kernels can be used on a device: found by launching one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@cache
def triton_works(
    device: torch.device, trial: Callable[[torch.device], object], instead: str
) -> bool:
    """Try once. Triton may be absent, lack a C compiler for its launchers, or not know the GPU.

    Args:
        trial: imports and launches a small kernel there. A function of a module, as the answer is
            remembered by it.
        instead: what happens without it, for the warning: ``"pruning uses slower operators"``. An
            absent Triton is nobody's surprise and not warned of.
    """
    if find_spec("triton") is None:
        return False
    try:
        trial(device)
        torch.cuda.synchronize(device)
    except Exception as error:
        logging.getLogger(trial.__module__).warning(
            "Triton does not work on %s, %s: %s: %s", device, instead, type(error).__name__, error
        )
        return False
    return True


def kernels_usable(tensor: Tensor, trial: Callable[[torch.device], object], instead: str) -> bool:
    """Whether kernels can work on ``tensor``: on CUDA, of a common dtype, Triton in order there.

    Args: see :func:`triton_works`.
    """
    fits = tensor.is_cuda and tensor.dtype in _DTYPES
    return fits and triton_works(tensor.device, trial, instead)
