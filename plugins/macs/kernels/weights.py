"""From entropies to weights; and what a row's slots are before any limit."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel
from .settings import (
    EPSILON,
    METHOD,
    METHOD_TOKEN_DROP,
    REPORT_SIZE,
    SCOPE_IMAGE,
    SENSITIVITY,
    UNIT,
    ZSCORE_SCOPE,
    option,
)
from .workspace import Workspace

_CHUNK = 2048


@triton.jit
def _total(entropy, rows, visual, first, end, mean, power: tl.constexpr, CHUNK: tl.constexpr):
    """Sum over visual rows of ``(H - mean) ** power``, and how many there are."""
    lane = tl.arange(0, CHUNK)
    total, count = 0.0, 0
    for begin in range(first, end, CHUNK):
        row = begin + lane
        there = row < end
        seen = (tl.load(visual + row, mask=there, other=0) != 0) & (
            tl.load(rows + row, mask=there, other=0) != 0
        )
        value = tl.where(seen, tl.load(entropy + row, mask=there, other=0) - mean, 0.0)
        if power == 2:
            value = value * value
        total += tl.sum(value, axis=0)
        count += tl.sum(seen.to(tl.int32), axis=0)
    return total, count


@triton.jit
def _run_end(rows, visual, first, count, CHUNK: tl.constexpr):
    """The row behind the run of visual rows that begins with ``first``."""
    lane = tl.arange(0, CHUNK)
    end = count
    begin = first
    while begin < end:
        row = begin + lane
        there = row < count
        seen = (tl.load(visual + row, mask=there, other=0) != 0) & (
            tl.load(rows + row, mask=there, other=0) != 0
        )
        end = tl.minimum(end, tl.min(tl.where(seen, count, row), axis=0))
        begin += CHUNK
    return end


@triton.jit(do_not_specialize=["count"])
def _weights(
    entropy,
    rows,
    visual,
    ids,
    settings,
    units,
    moved,
    report,
    state,
    count,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,
    ENTRIES: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Grid: (R). The first row of each group that is compared weighs the whole group."""
    row = tl.program_id(0)
    slot = tl.arange(0, SLOTS)
    own = tl.load(ids + row * TOP_K + slot, mask=slot < TOP_K, other=0)
    tl.store(moved + row * TOP_K + slot, own, mask=slot < TOP_K)
    if row == 0:
        entry = tl.arange(0, ENTRIES)
        tl.store(report + entry, tl.zeros((ENTRIES,), tl.float32), mask=entry < REPORT_SIZE)
        tl.store(state, 0)

    visible = (tl.load(rows + row) != 0) & (tl.load(visual + row) != 0)
    counted = option(settings, METHOD) == METHOD_TOKEN_DROP
    if counted | (~visible):
        tl.store(units + row, UNIT)
    by_image = option(settings, ZSCORE_SCOPE) == SCOPE_IMAGE
    before = tl.maximum(row - 1, 0)
    continues = (row > 0) & (tl.load(rows + before) != 0) & (tl.load(visual + before) != 0)
    leads = tl.where(by_image, visible & (~continues), row == 0)
    if leads & (~counted):
        end = count
        if by_image:
            end = _run_end(rows, visual, row, count, CHUNK)
        total, members = _total(entropy, rows, visual, row, end, 0.0, 1, CHUNK)
        size = tl.maximum(members, 1).to(tl.float32)
        mean = total / size
        squares, _ = _total(entropy, rows, visual, row, end, mean, 2, CHUNK)
        scale = tl.sqrt(squares / size) + tl.load(settings + EPSILON)
        sensitivity = tl.load(settings + SENSITIVITY)
        lane = tl.arange(0, CHUNK)
        for begin in range(row, end, CHUNK):
            other = begin + lane
            there = other < end
            seen = (tl.load(visual + other, mask=there, other=0) != 0) & (
                tl.load(rows + other, mask=there, other=0) != 0
            )
            z = (tl.load(entropy + other, mask=there, other=0) - mean) / scale
            weight = 1.0 / (1.0 + tl.exp(sensitivity * z))
            tl.store(units + other, tl.floor(weight * UNIT + 0.5).to(tl.int32), mask=seen)


_KERNEL = Kernel(_weights, num_warps=4)


def weigh(work: Workspace) -> None:
    """Fill ``units`` from ``entropy``; ``moved`` becomes the ids, report and counters zero."""
    tensors = (
        work.entropy,
        work.rows,
        work.visual,
        work.ids,
        work.settings,
        work.units,
        work.moved,
        work.report,
        work.state,
    )
    constants = (work.top_k, work.slots, work.entries, _CHUNK)
    _KERNEL((work.count, 1, 1), tensors, (work.count,), constants)
