"""A layout's spans as a table on the device, one row each, and how kernels read it."""

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..layout import Layout

_COLUMNS = 5  # the fields of SpanPlace


def place_table(layout: Layout, device: torch.device) -> Tensor:
    """The places of ``layout`` as ``[S+1,5]`` int32 on ``device``.

    The last row stands for the text: its length and, as count, the same. Tables are kept for
    layouts that come again, per stream, as the copy to the device is only ordered within one.
    """
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    text = (layout.length, layout.text_tokens, layout.text_tokens, layout.text_tokens, 0)
    return _uploaded((*layout.places, text), device, stream)


@lru_cache(maxsize=128)
def _uploaded(rows: tuple[tuple[int, ...], ...], device: torch.device, stream: int) -> Tensor:
    host = torch.tensor(rows, dtype=torch.int32, pin_memory=device.type == "cuda")
    return host.to(device, non_blocking=True)


@triton.jit
def read_place(table, span):
    """start, length, count (of kept tokens), text_before and kept_before of one span."""
    row = table + span * 5
    return tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3), tl.load(row + 4)
