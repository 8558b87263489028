"""Weights of the slots as they are now, and the report."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel, blocks
from .settings import (
    CAPACITY_LEAST,
    CAPACITY_MOST,
    DEVICE_AFTER,
    DEVICE_BEFORE,
    DEVICES,
    DROPPED_TEXT,
    DROPPED_VISUAL,
    EFFECTIVE_AFTER,
    EFFECTIVE_BEFORE,
    LOST_ROWS,
    OVER_CAPACITY,
    RAW_AFTER,
    RAW_BEFORE,
    RENORMALIZE,
    REROUTE,
    REROUTED,
    REROUTED_WEIGHT,
    UNIT,
    WEIGHT_TARGET,
    option,
    options,
)
from .workspace import Workspace

_BLOCK = 64


@triton.jit
def _tokens(units):
    """Weight units as tokens."""
    return units.to(tl.float32) * (1.0 / UNIT)


@triton.jit
def _loads(settings, limits, asked, held, report, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """The report's entries about experts and devices."""
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    limit = tl.load(limits + expert, mask=exists, other=0)
    asked_units = tl.load(asked + expert, mask=exists, other=0)
    asked_tokens = tl.load(asked + EXPERTS + expert, mask=exists, other=0)
    held_units = tl.load(held + expert, mask=exists, other=0)
    held_tokens = tl.load(held + EXPERTS + expert, mask=exists, other=0)
    largest = tl.max(limit, axis=0)
    tl.store(report + CAPACITY_MOST, _tokens(largest))
    tl.store(report + CAPACITY_LEAST, _tokens(tl.min(tl.where(exists, limit, largest), axis=0)))
    tl.store(report + RAW_BEFORE, tl.max(asked_tokens, axis=0).to(tl.float32))
    tl.store(report + RAW_AFTER, tl.max(held_tokens, axis=0).to(tl.float32))
    tl.store(report + EFFECTIVE_BEFORE, _tokens(tl.max(asked_units, axis=0)))
    tl.store(report + EFFECTIVE_AFTER, _tokens(tl.max(held_units, axis=0)))
    over = tl.max(tl.where(exists, held_units - limit, 0), axis=0)
    tl.store(report + OVER_CAPACITY, _tokens(tl.maximum(over, 0)))
    devices = option(settings, DEVICES)
    device = expert * devices // EXPERTS
    before = tl.full((), 0, tl.int64)
    after = tl.full((), 0, tl.int64)
    for place in range(0, devices):
        before = tl.maximum(before, tl.sum(tl.where(device == place, asked_tokens, 0), axis=0))
        after = tl.maximum(after, tl.sum(tl.where(device == place, held_tokens, 0), axis=0))
    tl.store(report + DEVICE_BEFORE, before.to(tl.float32))
    tl.store(report + DEVICE_AFTER, after.to(tl.float32))


@triton.jit(do_not_specialize=["count"])
def _finish(
    probabilities,
    ids,
    weights,
    visual,
    settings,
    limits,
    asked,
    held,
    turns,
    targets,
    moved,
    new_weights,
    report,
    count,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (blocks of rows). Counters are sums of small whole numbers: exact in any order."""
    if tl.program_id(0) == 0:
        _loads(settings, limits, asked, held, report, EXPERTS, WIDTH)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = row < count
    slot = tl.arange(0, SLOTS)
    cell = row[:, None] * TOP_K + slot[None, :]
    cells = there[:, None] & (slot < TOP_K)[None, :]
    old = tl.load(ids + cell, mask=cells, other=EXPERTS).to(tl.int32)
    new = tl.load(moved + cell, mask=cells, other=EXPERTS).to(tl.int32)
    waits = (old != new) & (options(settings, REROUTE, SLOTS) > 0)[None, :]
    key = tl.load(targets + tl.load(turns + cell, mask=waits, other=0), mask=waits, other=0)
    new = tl.where(key > 1, key % WIDTH, new)  # 1 is for nowhere
    tl.store(moved + cell, new, mask=waits)
    was = tl.load(weights + cell, mask=cells, other=0).to(tl.float32)
    lived, lives = cells & (old < EXPERTS), cells & (new < EXPERTS)
    base = probabilities + row[:, None].to(tl.int64) * EXPERTS
    old_score = tl.load(base + old, mask=lived, other=0)
    new_score = tl.load(base + new, mask=lives, other=0)
    scores = tl.maximum(tl.sum(old_score, axis=1), 1e-20)
    scale = tl.sum(tl.where(lived, was, 0.0), axis=1) / scores
    by_target = options(settings, REROUTED_WEIGHT, SLOTS) == WEIGHT_TARGET
    changed = old != new
    found = tl.where(changed & by_target[None, :], new_score * scale[:, None], was)
    found = tl.where(lives, found, 0.0)
    if option(settings, RENORMALIZE) > 0:
        left = tl.maximum(tl.sum(found, axis=1), 1e-20)
        found = found * (tl.sum(was, axis=1) / left)[:, None]
    touched = tl.max(changed.to(tl.int32), axis=1) > 0
    found = tl.where(touched[:, None], found, was)
    tl.store(new_weights + cell, found.to(new_weights.dtype.element_ty), mask=cells)

    visible = tl.load(visual + row, mask=there, other=0) != 0
    dropped = tl.sum((lived & (~lives)).to(tl.int32), axis=1)
    rerouted = tl.sum(tl.sum((changed & lives).to(tl.int32), axis=1), axis=0)
    lost = touched & (tl.max(lives.to(tl.int32), axis=1) == 0)
    dropped_visual = tl.sum(tl.where(visible, dropped, 0), axis=0)
    dropped_text = tl.sum(tl.where(visible, 0, dropped), axis=0)
    _count(report + REROUTED, rerouted)
    _count(report + DROPPED_VISUAL, dropped_visual)
    _count(report + DROPPED_TEXT, dropped_text)
    _count(report + LOST_ROWS, tl.sum(lost.to(tl.int32), axis=0))


@triton.jit
def _count(entry, number):
    if number > 0:
        tl.atomic_add(entry, number.to(tl.float32), sem="relaxed")


_KERNEL = Kernel(_finish, num_warps=4)


def finish(work: Workspace) -> None:
    """Fill ``moved``, ``new_weights`` and the rest of ``report``."""
    tensors = (
        work.probabilities,
        work.ids,
        work.weights,
        work.visual,
        work.settings,
        work.limits,
        work.asked,
        work.held,
        work.turns,
        work.targets,
        work.moved,
        work.new_weights,
        work.report,
    )
    constants = (work.experts, work.width, work.top_k, work.slots, _BLOCK)
    _KERNEL((blocks(work.count, _BLOCK), 1, 1), tensors, (work.count,), constants)
