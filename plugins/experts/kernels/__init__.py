"""Triton kernels of the expert feed-forward.

Importing this package imports no Triton; its modules do. Callers ask :func:`usable` first and use
the torch reference where the answer is no.

Four launches, none of which needs anything from the host but shapes, so that a CUDA graph replays
them for any routing: :mod:`.plan` groups the slots by expert, :mod:`.gate_up` and :mod:`.down` are
the two grouped matrix products, :mod:`.combine` adds up each row's slots.
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
        from .combine import combine

        slots = torch.zeros(1, 1, dtype=torch.int64, device=device)
        combine(torch.ones(1, 16, device=device), slots, experts=1)
        torch.cuda.synchronize(device)
    except Exception as error:
        logging.getLogger(__name__).warning(
            "Triton does not work on %s, experts are computed by slower torch operators: %s: %s",
            device,
            type(error).__name__,
            error,
        )
        return False
    return True
