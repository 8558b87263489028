"""Re-routing: one pair of the queue after another takes the best expert that has room."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel
from .settings import DEVICES, REROUTE, REROUTE_THRESHOLD, SIMILARITY, SIMILARITY_EXPERT, option
from .workspace import AGAIN, AHEAD, ONE_TOKEN, Workspace

# What an expert has left for the next pairs is one number: room in the low bits, tokens above.
# After a subtraction, one of the guards is set where there was too little of either.
_ONE_TOKEN = tl.constexpr(ONE_TOKEN)
_GUARDS = tl.constexpr(ONE_TOKEN // 2 - (1 << 31))
_FULL = tl.constexpr(-(1 << 30))
_PAIRS = tl.constexpr(64)  # what they weigh together is below the guard

# Tuples grow here while loops are unrolled; mypy takes the empty one for their type.


@triton.jit
def _heads(queue, AHEAD: tl.constexpr):
    """Of each of AHEAD pairs of the queue: the row, and what the pair needs."""
    found = ()
    for place in tl.static_range(AHEAD):
        head = tl.load(queue + place * 2)
        found += ((head.to(tl.int32), (head >> 32).to(tl.int32)),)  # type: ignore[assignment]
    return found


@triton.jit
def _lists(preferences, heads, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """The lists ``[N]`` int32 of the pairs' rows."""
    found = ()
    for place in tl.static_range(len(heads)):
        found += (_list(preferences, heads[place][0], EXPERTS, WIDTH),)  # type: ignore[assignment]
    return found


@triton.jit
def _list(preferences, place, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    expert = tl.arange(0, WIDTH)
    return tl.load(preferences + (place * EXPERTS + expert), mask=expert < EXPERTS, other=0)


@triton.jit
def _tails(queue, AHEAD: tl.constexpr):
    """Of each pair: the least key that will do, the device it may go to, and its expert."""
    found = ()
    for place in tl.static_range(AHEAD):
        tail = tl.load(queue + place * 2 + 1)
        device = (tail >> 32).to(tl.int32) & 0xFFFF
        found += ((tail.to(tl.int32), device, (tail >> 48).to(tl.int32)),)  # type: ignore[assignment]
    return found


@triton.jit
def _best(key, left, need):
    """The highest key of an expert that has room; 1, which no list has, where there is none."""
    best = tl.max(tl.where((left - need) & _GUARDS == 0, key, 0), axis=0)
    return tl.maximum(best, 1)


@triton.jit
def _go(preferences, target, row, best, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """Say where a pair goes, and strike that off the list of its row."""
    tl.store(target, best)
    cell = row * EXPERTS + (best & (WIDTH - 1))
    tl.store(preferences + cell, 0, mask=best > 1)


@triton.jit
def _at_once(preferences, targets, heads, lists, left, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """What experts have left after the pairs of a block, which choose without regard to each other.

    Room only shrinks, so the best expert is the best still when a pair's turn comes, if it has room
    for all who have chosen it. Where one has not, the pairs choose anew, one after another.
    """
    after = left
    best = ()
    for place in tl.static_range(len(heads)):
        need = heads[place][1]
        best += (_best(lists[place], left, need),)  # type: ignore[assignment]
        after = tl.where(lists[place] == best[place], after - need, after)
    short = after & ~left & _GUARDS != 0
    if tl.max(short.to(tl.int32), axis=0) > 0:
        for place in tl.static_range(len(heads)):
            row, need = heads[place]
            found = _best(lists[place], left, need)
            left = tl.where(lists[place] == found, left - need, left)
            _go(preferences, targets + place, row, found, EXPERTS, WIDTH)
    else:
        left = after
        for place in tl.static_range(len(heads)):
            _go(preferences, targets + place, heads[place][0], best[place], EXPERTS, WIDTH)
    return left


@triton.jit
def _carefully(
    queue,
    preferences,
    targets,
    heads,
    lists,
    left,
    device_of,
    count,
    by_similarity,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_SIMILARITY: tl.constexpr,
    AGAIN: tl.constexpr,
):
    """The same, one after another: lists have been read too early, or likeness decides."""
    tails = _tails(queue, len(heads))
    for place in tl.static_range(len(heads)):
        row, need = heads[place]
        least, device, origin = tails[place]
        key = lists[place]
        if need >= AGAIN:
            tl.debug_barrier()
            key = _list(preferences, row, EXPERTS, WIDTH)
        need = need & (AGAIN - 1)
        near = tl.where(device_of == device, key, 0)
        key = tl.where(near >= least, near, 0)
        liking = key
        if HAS_SIMILARITY and by_similarity:
            alike = _list(preferences, count + origin, EXPERTS, WIDTH)
            liking = tl.where(near > 0, alike, 0)
        best = _best(liking, left, need)
        taken = (liking == best) & (key > 0)
        if HAS_SIMILARITY:
            best = tl.where(tl.max(taken.to(tl.int32), axis=0) > 0, best, 1)
        left = tl.where(taken, left - need, left)
        _go(preferences, targets + place, row, best, EXPERTS, WIDTH)
    return left


@triton.jit
def _allowed(lists, tails, device_of):
    """The lists without experts on other devices and those below the least key."""
    found = ()
    for place in tl.static_range(len(lists)):
        least, device, _ = tails[place]
        allowed = (device_of == device) & (lists[place] >= least)
        found += (tl.where(allowed, lists[place], 0),)  # type: ignore[assignment]
    return found


@triton.jit(do_not_specialize=["count"])
def _rerouting(
    settings,
    state,
    limits,
    held,
    queue,
    preferences,
    targets,
    count,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_SIMILARITY: tl.constexpr,
    AHEAD: tl.constexpr,
    AGAIN: tl.constexpr,
):
    """Grid: (1), of one warp, which keeps in registers what experts have left.

    Each pair takes little more than finding the highest of N keys. Heads of pairs are on their way
    while two blocks are dealt with, and lists while one is. Whoever takes an expert strikes it off
    the row's list; a pair whose list may have been read too early for that is marked.
    """
    if option(settings, REROUTE) == 0:
        return
    number = tl.load(state).to(tl.int32)
    # The compiler would wait for heads at once, to have in uniform registers what is the same in
    # all lanes; of an address made from a volatile value it cannot know. This one is 0.
    queue += tl.load(state, volatile=True) >> 40
    by_similarity = option(settings, SIMILARITY) == SIMILARITY_EXPERT
    devices = option(settings, DEVICES)
    restricted = (devices > 1) | (tl.load(settings + REROUTE_THRESHOLD) > 0)
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    device_of = expert * devices // EXPERTS
    room = tl.load(limits + expert, mask=exists, other=0)
    room -= tl.load(held + expert, mask=exists, other=0)
    places = tl.load(state + 1) - tl.load(held + EXPERTS + expert, mask=exists, other=0)
    soon = _heads(queue, AHEAD)
    lists_soon = _lists(preferences, soon, EXPERTS, WIDTH)
    later = _heads(queue + AHEAD * 2, AHEAD)
    for start in range(0, number, _PAIRS):
        some_room = tl.minimum(room, _ONE_TOKEN // 4).to(tl.int32)
        some_places = tl.minimum(places, _PAIRS).to(tl.int32)
        usable = (some_room >= 0) & (some_places > 0)
        most = tl.where(usable, some_places * _ONE_TOKEN + some_room, _FULL)
        left = most
        for first in range(start, tl.minimum(start + _PAIRS, number), AHEAD):
            heads, lists, soon = soon, lists_soon, later
            tl.debug_barrier()  # what was struck off is seen
            lists_soon = _lists(preferences, soon, EXPERTS, WIDTH)
            later = _heads(queue + (first + 2 * AHEAD) * 2, AHEAD)
            largest = heads[0][1]
            for place in tl.static_range(1, AHEAD):
                largest = tl.maximum(largest, heads[place][1])
            block = queue + first * 2
            if (largest >= AGAIN) | by_similarity:
                left = _carefully(block, preferences, targets + first, heads, lists, left,
                                  device_of, count, by_similarity,
                                  EXPERTS, WIDTH, HAS_SIMILARITY, AGAIN)  # fmt: skip
            else:
                if restricted:
                    lists = _allowed(lists, _tails(block, AHEAD), device_of)
                left = _at_once(preferences, targets + first, heads, lists, left, EXPERTS, WIDTH)
        room -= (most - left) & (_ONE_TOKEN - 1)
        places -= (most - left) >> 24
    limit = tl.load(limits + expert, mask=exists, other=0)
    tl.store(held + expert, limit - room, mask=exists)
    tl.store(held + EXPERTS + expert, tl.load(state + 1) - places, mask=exists)


_KERNEL = Kernel(_rerouting, num_warps=1)


def reroute(work: Workspace) -> None:
    """Write where the pairs of ``queue`` go to ``targets``; ``held`` grows."""
    tensors = (
        work.settings,
        work.state,
        work.limits,
        work.held,
        work.queue,
        work.preferences,
        work.targets,
    )
    known = work.similarity is not None
    constants = (work.experts, work.width, known, AHEAD, AGAIN)
    _KERNEL((1, 1, 1), tensors, (work.count,), constants)
