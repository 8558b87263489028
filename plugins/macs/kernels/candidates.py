"""Who asks for each expert, and how much that expert may take."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel
from .settings import (
    BASIS_EFFECTIVE,
    CAPACITY_BASIS,
    CAPACITY_FACTOR,
    DISABLE_WHEN_TEXT_ONLY,
    GAIN,
    KEEP_TOP1_TEXT,
    METHOD,
    METHOD_OFF,
    METHOD_TOKEN_DROP,
    MINIMUM_CAPACITY,
    ORDER,
    ORDER_TEXT_FIRST,
    ORDER_WEIGHTED,
    ROWS,
    TOKEN_LIMIT,
    UNIT,
    VISUAL_RATIO,
    VISUAL_ROWS,
    WEIGHT,
    option,
    options,
)
from .workspace import Workspace

_CHUNK = 512


@triton.jit(do_not_specialize=["count"])
def _candidates(
    probabilities,
    ids,
    rows,
    visual,
    groups,
    settings,
    units,
    report,
    state,
    limits,
    asked,
    keys,
    asking,
    count,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Grid: (N). Each program reads the ids of all rows and keeps those of its expert.

    A key orders candidates, the highest first: whether it is reserved, whether its turn is first,
    then the bits of its priority, which order as the number does for it is not negative, then how
    early the row comes.
    """
    expert = tl.program_id(0)
    on = options(settings, METHOD, CHUNK) != METHOD_OFF
    keeps = options(settings, KEEP_TOP1_TEXT, CHUNK) > 0
    goes_first = options(settings, ORDER, CHUNK) == ORDER_TEXT_FIRST
    weighted = option(settings, ORDER) == ORDER_WEIGHTED
    row_lane = tl.arange(0, CHUNK)
    slot_lane = tl.arange(0, SLOTS)
    zero = tl.full((), 0, tl.int64)
    all_units, visual_units, asked_units = zero, zero, zero
    none = tl.full((), 0, tl.int32)
    tokens, visuals, found = none, none, none
    for begin in range(0, count, CHUNK):
        row = begin + row_lane
        there = row < count
        takes_part = (tl.load(rows + row, mask=there, other=0) != 0) & on
        visible = (tl.load(visual + row, mask=there, other=0) != 0) & takes_part
        weight = tl.load(units + row, mask=there, other=0)
        all_units += tl.sum(tl.where(takes_part, weight, 0).to(tl.int64), axis=0)
        visual_units += tl.sum(tl.where(visible, weight, 0).to(tl.int64), axis=0)
        tokens += tl.sum(takes_part.to(tl.int32), axis=0)
        visuals += tl.sum(visible.to(tl.int32), axis=0)

        cell = row[:, None] * TOP_K + slot_lane[None, :]
        cells = there[:, None] & (slot_lane < TOP_K)[None, :]
        match = cells & (tl.load(ids + cell, mask=cells, other=EXPERTS) == expert)
        slot = tl.max(tl.where(match, slot_lane[None, :], -1), axis=1)
        asks = takes_part & (slot >= 0)
        score = tl.load(probabilities + row.to(tl.int64) * EXPERTS + expert, mask=asks, other=0)
        if weighted:
            score = score * (weight.to(tl.float32) * (1.0 / UNIT))
        text = asks & (~visible)
        reserved = (text & (slot == 0) & keeps).to(tl.int64)
        first = (text & goes_first).to(tl.int64)
        bits = score.to(tl.int32, bitcast=True).to(tl.int64)  # at most those of 1.0, 30 of them
        key = (reserved << 62) | (first << 61) | (bits << 31) | (0x7FFFFFFF - row)
        asks_number = asks.to(tl.int32)
        place = expert.to(tl.int64) * count + found + tl.cumsum(asks_number, 0) - 1
        tl.store(keys + place, key, mask=asks)
        tl.store(asking + place, row * TOP_K + slot, mask=asks)
        asked_units += tl.sum(tl.where(asks, weight, 0).to(tl.int64), axis=0)
        found += tl.sum(asks_number, axis=0)

    if (visuals == 0) & (option(settings, DISABLE_WHEN_TEXT_ONLY) > 0):
        all_units, asked_units = zero, zero
        tokens, found = none, none

    experts = tl.full((), EXPERTS, tl.float32)
    one = tl.maximum(all_units, 1).to(tl.float32)
    ratio = tl.math.div_rn(visual_units.to(tl.float32), one)
    mean_load = tl.math.div_rn(tokens.to(tl.float32) * TOP_K, experts)
    weight_sum = all_units.to(tl.float32) * (1.0 / UNIT)
    effective = tl.math.div_rn(weight_sum * TOP_K, experts)
    by_weight = option(settings, CAPACITY_BASIS) == BASIS_EFFECTIVE
    base = tl.load(settings + CAPACITY_FACTOR) * tl.where(by_weight, effective, mean_load)
    lean = tl.load(settings + GAIN) * tl.load(groups + expert)
    adapted = base * (1.0 + lean * (ratio - 0.5))
    adapted = tl.maximum(adapted, tl.load(settings + MINIMUM_CAPACITY))
    whole = tl.minimum(tl.ceil(base * 0.999999), tokens.to(tl.float32))
    counted = option(settings, METHOD) == METHOD_TOKEN_DROP
    capacity = tl.minimum(tl.where(counted, whole, adapted), 2147483648.0)
    tl.store(limits + expert, tl.floor(capacity * UNIT + 0.5).to(tl.int64))
    tl.store(asked + expert, asked_units)
    tl.store(asked + EXPERTS + expert, found.to(tl.int64))
    if expert == 0:
        factor = tl.load(settings + TOKEN_LIMIT)
        most = tl.maximum(tl.ceil(factor * mean_load * 0.999999), 1.0)
        most = tl.minimum(tl.where(factor > 0, most, 2147483648.0), 2147483648.0)
        tl.store(state + 1, most.to(tl.int64))
        tl.store(report + ROWS, tokens.to(tl.float32))
        tl.store(report + VISUAL_ROWS, visuals.to(tl.float32))
        tl.store(report + WEIGHT, weight_sum)
        tl.store(report + VISUAL_RATIO, ratio)


# Products and sums stay apart, so that limits have the very bits of the reference.
_KERNEL = Kernel(_candidates, num_warps=8, enable_fp_fusion=False)


def find_candidates(work: Workspace) -> None:
    """Fill ``keys, asking, asked, limits``, the second of ``state``, the head of the report."""
    tensors = (
        work.probabilities,
        work.ids,
        work.rows,
        work.visual,
        work.groups,
        work.settings,
        work.units,
        work.report,
        work.state,
        work.limits,
        work.asked,
        work.keys,
        work.asking,
    )
    constants = (work.experts, work.top_k, work.slots, _CHUNK)
    _KERNEL((work.experts, 1, 1), tensors, (work.count,), constants)
