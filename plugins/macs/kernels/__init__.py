"""Triton kernels of ``MacsCapacity``: a fixed row of launches the host never waits for.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and have
the reference for every other case, which also says what the kernels must compute.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def usable(hidden: Tensor) -> bool:
    """Whether the kernels can work on ``hidden``: on CUDA, and Triton is in order there."""
    return hidden.is_cuda and _triton_works(hidden.device)


@cache
def _triton_works(device: torch.device) -> bool:
    """Try once. Triton may be absent, lack a C compiler for its launchers, or not know the GPU."""
    if find_spec("triton") is None:
        return False
    try:
        from .entropy import row_entropy

        row_entropy(torch.ones(1, 16, device=device), *torch.ones(2, 1, device=device).bool())
        torch.cuda.synchronize(device)
    except Exception as error:
        logging.getLogger(__name__).warning(
            "Triton does not work on %s, expert capacities use slow torch operators: %s: %s",
            device,
            type(error).__name__,
            error,
        )
        return False
    return True
