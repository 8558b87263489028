"""A matrix times one vector: decoding a single sequence, which is all about reading weights."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ....core.launch import Kernel, blocks, power_of_two

_LONGEST_WHOLE = 3072  # up to this many inputs a program holds whole rows of weights
_ROWS = 4  # outputs of a program beyond that
_CHUNK = 512  # inputs at a time: 4 KB of weights in half precision
_STAGES = 4  # of them on their way at once


@triton.jit(do_not_specialize=["eps"])
def _whole_rows(
    x,
    gain,
    weight,
    y,
    eps,
    SIZE: tl.constexpr,
    OUT: tl.constexpr,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    ADD: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """``ROWS`` outputs per program, whose weights are all on their way before the vector is there.

    Grid: (outputs / ROWS). See ``_in_chunks`` for the rest.
    """
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
    output = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = output < OUT
    column = tl.arange(0, BLOCK)
    there = column < SIZE
    line = output.to(tl.int64)[:, None] * SIZE + column[None, :]
    mask = inside[:, None] & there[None, :]
    first = tl.load(weight + line, mask=mask, other=0.0)
    second = first
    factor = 1.0
    if GATED:
        second = tl.load(weight + OUT * SIZE + line, mask=mask, other=0.0)
    if NORM:
        factor = tl.load(gain + column, mask=there, other=0.0).to(tl.float32)
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    value = tl.load(x + column, mask=there, other=0.0).to(tl.float32)
    scale = 1.0
    if NORM:
        scale = tl.rsqrt(tl.sum(value * value, axis=0) / SIZE + eps)
        value *= factor
    result = tl.sum(first.to(tl.float32) * value[None, :], axis=1) * scale
    if GATED:
        up = tl.sum(second.to(tl.float32) * value[None, :], axis=1) * scale
        result = result * tl.sigmoid(result) * up
    if ADD:
        result += tl.load(y + output, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + output, result, mask=inside)


@triton.jit(do_not_specialize=["eps"])
def _in_chunks(
    x,
    gain,
    weight,
    y,
    eps,
    SIZE: tl.constexpr,
    OUT: tl.constexpr,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    ADD: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """``ROWS`` outputs per program, ``CHUNK`` inputs at a time, all sums in fp32.

    Grid: (outputs / ROWS). Reads the weights once, the vector from the L1 cache. A norm in front
    costs no pass of its own: the sum of squares is taken along the way and divides the result.
    ``GATED``: the weights are two matrices, and the result is ``silu(first) * second``. The first
    chunk of weights is asked for while the kernel that makes the vector still runs, and used last.
    """
    output = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = output < OUT
    column = tl.arange(0, CHUNK)
    line = output.to(tl.int64)[:, None] * SIZE + column[None, :]
    total = tl.zeros((ROWS, CHUNK), tl.float32)
    other = tl.zeros((ROWS, CHUNK), tl.float32)
    squares = tl.zeros((CHUNK,), tl.float32)
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
    there = column < SIZE
    mask = inside[:, None] & there[None, :]
    first = tl.load(weight + line, mask=mask, other=0.0)
    second = first
    if GATED:
        second = tl.load(weight + OUT * SIZE + line, mask=mask, other=0.0)
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    for offset in tl.range(CHUNK, SIZE, CHUNK, num_stages=STAGES):
        later = offset + column < SIZE
        mask = inside[:, None] & later[None, :]
        value = tl.load(x + offset + column, mask=later, other=0.0).to(tl.float32)
        if NORM:
            squares += value * value
            value *= tl.load(gain + offset + column, mask=later, other=0.0).to(tl.float32)
        w = tl.load(weight + offset + line, mask=mask, other=0.0)
        total += w.to(tl.float32) * value[None, :]
        if GATED:
            w = tl.load(weight + OUT * SIZE + offset + line, mask=mask, other=0.0)
            other += w.to(tl.float32) * value[None, :]
    value = tl.load(x + column, mask=there, other=0.0).to(tl.float32)
    if NORM:
        squares += value * value
        value *= tl.load(gain + column, mask=there, other=0.0).to(tl.float32)
    total += first.to(tl.float32) * value[None, :]
    if GATED:
        other += second.to(tl.float32) * value[None, :]
    result = tl.sum(total, axis=1)
    up = tl.sum(other, axis=1)
    if NORM:
        scale = tl.rsqrt(tl.sum(squares, axis=0) / SIZE + eps)
        result *= scale
        up *= scale
    if GATED:
        result = result * tl.sigmoid(result) * up
    if ADD:
        result += tl.load(y + output, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + output, result, mask=inside)


_WHOLE = Kernel(_whole_rows, overlaps=True, num_warps=4)
_CHUNKED = Kernel(_in_chunks, overlaps=True, num_warps=2)


def vector_linear(
    x: Tensor,
    weight: Tensor,
    *,
    gain: Tensor | None = None,
    eps: float = 0.0,
    gated: bool = False,
    add_to: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``x [1,K]`` times ``weight [N,K]``, both contiguous: ``[1,N]``.

    Args:
        gain: ``[K]`` weight of an RMS norm with ``eps`` that ``x`` passes through first.
        gated: ``weight`` is ``[2N,K]``, gates first; the result is ``silu(gate) * up``.
        add_to: ``[1,N]`` the result is added to, and returned; nothing else is allocated.
        dtype: of the result; that of ``x`` if ``None``.
    """
    size = x.shape[1]
    out = weight.shape[0] // 2 if gated else weight.shape[0]
    y = x.new_empty(1, out, dtype=dtype) if add_to is None else add_to
    tensors = (x, x if gain is None else gain, weight, y)
    constants = (size, out, gain is not None, gated, add_to is not None)
    if size <= _LONGEST_WHOLE:
        rows = 1 if gated else 2
        _WHOLE((blocks(out, rows), 1, 1), tensors, (eps,), (*constants, rows, power_of_two(size)))
    else:
        _CHUNKED((blocks(out, _ROWS), 1, 1), tensors, (eps,), (*constants, _ROWS, _CHUNK, _STAGES))
    return y
