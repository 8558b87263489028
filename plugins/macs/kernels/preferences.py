"""The queue of pairs, and where each of them would go, were there room everywhere."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel
from .settings import (
    DEVICE,
    DEVICES,
    LOCALITY,
    LOCALITY_SOURCE,
    REROUTE,
    REROUTE_THRESHOLD,
    option,
    options,
)
from .workspace import AGAIN, AHEAD, Workspace
from .workspace import ONE_TOKEN as _ONE_TOKEN

ONE_TOKEN = tl.constexpr(_ONE_TOKEN)
_CHUNK = 32


@triton.jit
def _beaten(scores, ties: tl.constexpr, EXPERTS: tl.constexpr, WIDTH: tl.constexpr,
            CHUNK: tl.constexpr):  # fmt: skip
    """How many experts have a lower score than each, or the same and a higher id: ``[N]`` int32."""
    expert = tl.arange(0, WIDTH)
    score = tl.load(scores + expert, mask=expert < EXPERTS, other=float("-inf"))[None, :]
    number = tl.zeros((CHUNK, WIDTH), tl.int32)
    for first in range(0, EXPERTS, CHUNK):
        other = first + tl.arange(0, CHUNK)
        rival = tl.load(scores + other, mask=other < EXPERTS, other=float("inf"))[:, None]
        if ties:
            number += ((score == rival) & (expert[None, :] < other[:, None])).to(tl.int32)
        else:
            number += (score > rival).to(tl.int32)
    return tl.sum(number, axis=0)


@triton.jit
def _keys(scores, EXPERTS: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    """``[N]`` int32 that order experts as the scores do, the lower id among equals, and tell them:
    ``rank * WIDTH + expert``, with ranks from 1.
    """
    rank = _beaten(scores, False, EXPERTS, WIDTH, CHUNK)
    if tl.sum(rank, axis=0) < EXPERTS * (EXPERTS - 1) // 2:
        rank += _beaten(scores, True, EXPERTS, WIDTH, CHUNK)
    return (rank + 1) * WIDTH + tl.arange(0, WIDTH)


@triton.jit(do_not_specialize=["count"])
def _preferences(
    probabilities,
    similarity,
    ids,
    settings,
    units,
    state,
    moved,
    turns,
    queue,
    preferences,
    count,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,
    AHEAD: tl.constexpr,
    AGAIN: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Grid: (R), or (R + N) where experts are compared: one more list for each of them.

    A row's list has 0 for experts that the row has chosen itself. Of a pair the queue has the head,
    its row and above that what it needs, and the tail: the least key that will do, the device it
    may go to, and its expert. AGAIN is added to the need where the row's list may change after it
    has been read ahead, by a pair in front in the same block or in the one before.
    """
    row = tl.program_id(0)
    if option(settings, REROUTE) == 0:
        return
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    own = preferences + row.to(tl.int64) * EXPERTS + expert
    if row >= count:
        alike = similarity + (row - count) * EXPERTS
        tl.store(own, _keys(alike, EXPERTS, WIDTH, CHUNK), mask=exists)
        return
    if row == 0:  # nobody, for readers ahead of the end: needs more room than there ever is
        end = tl.load(state) + tl.arange(0, 4 * AHEAD)
        nobody = tl.full((4 * AHEAD,), ONE_TOKEN // 2, tl.int64) << 32
        tl.store(queue + end * 2, nobody)
        tl.store(queue + end * 2 + 1, tl.zeros((4 * AHEAD,), tl.int64))
    lane = tl.arange(0, SLOTS)
    slot = row * TOP_K + lane
    old = tl.load(ids + slot, mask=lane < TOP_K, other=EXPERTS).to(tl.int32)
    new = tl.load(moved + slot, mask=lane < TOP_K, other=EXPERTS).to(tl.int32)
    waits = old != new
    if (tl.max(waits.to(tl.int32), axis=0) == 0) & (row > 0):  # whose list nobody's is, too
        return
    scores = probabilities + row.to(tl.int64) * EXPERTS
    chosen = tl.max((old[:, None] == expert[None, :]).to(tl.int32), axis=0) > 0
    tl.store(own, tl.where(chosen, 0, _keys(scores, EXPERTS, WIDTH, CHUNK)), mask=exists)

    turn = tl.load(turns + slot, mask=waits, other=-1)
    early = turn // AHEAD * AHEAD - AHEAD
    again = (turn[None, :] >= early[:, None]) & (turn[None, :] < turn[:, None]) & waits[None, :]
    need = tl.load(units + row) + ONE_TOKEN + AGAIN * tl.max(again.to(tl.int32), axis=1)
    tl.store(queue + turn * 2, (need.to(tl.int64) << 32) | row, mask=waits)

    least = tl.load(settings + REROUTE_THRESHOLD) * tl.load(scores + old, mask=waits, other=0)
    score = tl.load(scores + expert, mask=exists, other=float("inf"))
    below = tl.sum((score[None, :] < least[:, None]).to(tl.int32), axis=1)
    by_source = options(settings, LOCALITY, SLOTS) == LOCALITY_SOURCE
    device = old * options(settings, DEVICES, SLOTS) // EXPERTS
    device = tl.where(by_source, options(settings, DEVICE, SLOTS), device)
    where = ((old << 16) | device).to(tl.int64) << 32
    tl.store(queue + turn * 2 + 1, where | ((below + 1) * WIDTH), mask=waits)


_KERNEL = Kernel(_preferences, num_warps=4)


def find_preferences(work: Workspace) -> None:
    """Fill ``queue``, and ``preferences`` of the rows that are in it."""
    known = work.similarity is not None
    tensors = (
        work.probabilities,
        work.similarity if work.similarity is not None else work.probabilities,
        work.ids,
        work.settings,
        work.units,
        work.state,
        work.moved,
        work.turns,
        work.queue,
        work.preferences,
    )
    sizes = (work.experts, work.width, work.top_k, work.slots, AHEAD, AGAIN, _CHUNK)
    _KERNEL((work.count + known * work.experts, 1, 1), tensors, (work.count,), sizes)
