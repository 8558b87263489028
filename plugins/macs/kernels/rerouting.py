"""Re-routing in the order of its queue, all pairs at a time."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel, blocks
from .settings import (
    DEVICE,
    DEVICES,
    LOCALITY,
    LOCALITY_SOURCE,
    REROUTE,
    REROUTE_THRESHOLD,
    SIMILARITY,
    SIMILARITY_EXPERT,
    option,
    options,
)
from .workspace import BLOCK, ROUNDS, Workspace

_MOST = tl.constexpr(1 << 30)
_ONE_TOKEN = tl.constexpr(1 << 24)  # above the weight of a block, so one sum counts both
_ONE_TAKEN = tl.constexpr(1 << 40)  # the same, above the weight of all rows
_NEVER = tl.constexpr(2147483647)


@triton.jit
def _pairs(
    queue, ids, units, first, number, EXPERTS: tl.constexpr, TOP_K: tl.constexpr, SIZE: tl.constexpr
):
    """A block of the queue: which places it has, and each pair's slot, row, expert and weight."""
    lane = tl.arange(0, SIZE)
    there = first + lane < number
    slot = tl.load(queue + first + lane, mask=there, other=0)
    row = slot // TOP_K
    origin = tl.load(ids + slot, mask=there, other=0).to(tl.int64)
    return there, slot, row, origin, tl.load(units + row, mask=there, other=0)


@triton.jit
def _likings(
    probabilities,
    similarity,
    ids,
    settings,
    there,
    row,
    origin,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    HAS_SIMILARITY: tl.constexpr,
):
    """What pairs go by: ``[B,N]`` liking, and whether an expert would do, room aside."""
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    shown = there[:, None] & exists[None, :]
    cell = row[:, None].to(tl.int64) * EXPERTS + expert[None, :]
    probability = tl.load(probabilities + cell, mask=shown, other=0)
    own = tl.load(probabilities + row.to(tl.int64) * EXPERTS + origin, mask=there, other=0)
    liking = probability
    if HAS_SIMILARITY:
        by_similarity = options(settings, SIMILARITY, WIDTH)[None, :] == SIMILARITY_EXPERT
        alike = origin[:, None] * EXPERTS + expert[None, :]
        likeness = tl.load(similarity + alike, mask=shown & by_similarity, other=0)
        liking = tl.where(by_similarity, likeness, probability)
    devices = option(settings, DEVICES)
    device = expert * devices // EXPERTS
    full = (origin * devices // EXPERTS).to(tl.int32)
    by_source = option(settings, LOCALITY) == LOCALITY_SOURCE
    wanted = tl.where(by_source, option(settings, DEVICE), full)
    open_to = shown & (device[None, :] == wanted[:, None])
    for other in range(TOP_K):
        chosen = tl.load(ids + row * TOP_K + other, mask=there, other=EXPERTS).to(tl.int32)
        open_to = open_to & (expert[None, :] != chosen[:, None])
    least = tl.load(settings + REROUTE_THRESHOLD) * own
    return liking, probability, open_to, least


@triton.jit
def _choices(
    target,
    turn,
    there,
    row,
    weight,
    liking,
    probability,
    open_to,
    least,
    room,
    places,
    ids,
    turns,
    moved,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    HAS_SIMILARITY: tl.constexpr,
):
    """The best expert with room for each pair, if those before it in the block take ``target``.

    Args:
        turn: ``[B]``, the place in the queue.
        room, places: ``[N]`` int32, what is left when the block's turn comes.
        moved: where other pairs of the row go at present; those behind it do not count.
    """
    expert = tl.arange(0, WIDTH)
    takes = expert[None, :] == target[:, None]  # [B,N]
    load = tl.where(takes, weight[:, None] + _ONE_TOKEN, 0)
    load = tl.cumsum(load, 0) - load
    fits = (load % _ONE_TOKEN + weight[:, None] <= room[None, :]) & (
        load // _ONE_TOKEN < places[None, :]
    )
    possible = open_to & fits
    for other in range(TOP_K):
        slot = row * TOP_K + other
        now = tl.load(moved + slot, mask=there, other=EXPERTS).to(tl.int32)
        was = tl.load(ids + slot, mask=there, other=EXPERTS).to(tl.int32)
        there_too = there & (now != was)
        place = tl.load(turns + slot, mask=there_too, other=_NEVER)
        met = tl.where(place < turn, now, EXPERTS)
        possible = possible & (expert[None, :] != met[:, None])
    value = tl.where(possible, liking, float("-inf"))
    best = tl.max(value, axis=1)
    found = tl.min(tl.where(possible & (value == best[:, None]), expert[None, :], WIDTH), axis=1)
    reached = best
    if HAS_SIMILARITY:
        is_found = expert[None, :] == found[:, None]
        reached = tl.sum(tl.where(is_found, probability, 0.0), axis=1)
    return tl.where((found < WIDTH) & (reached >= least), found, EXPERTS)


@triton.jit
def _taken_before(taken, end, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """What blocks before ``end`` take: ``[N]`` int64, tokens and units packed."""
    expert = tl.arange(0, WIDTH)
    lane = tl.arange(0, 16)
    total = tl.zeros((WIDTH,), tl.int64)
    for first in range(0, end, 16):
        part = first + lane
        mask = (part < end)[:, None] & (expert < EXPERTS)[None, :]
        cell = part[:, None].to(tl.int64) * EXPERTS + expert[None, :]
        total += tl.sum(tl.load(taken + cell, mask=mask, other=0), axis=0)
    return total


@triton.jit
def _left(limits, held, state, before, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """Room and places ``[N]`` int32, no more than a block can use."""
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    used = tl.load(held + expert, mask=exists, other=0) + before % _ONE_TAKEN
    tokens = tl.load(held + EXPERTS + expert, mask=exists, other=0) + before // _ONE_TAKEN
    room = tl.load(limits + expert, mask=exists, other=0) - used
    room = tl.maximum(tl.minimum(room, _MOST), -1).to(tl.int32)
    places = tl.minimum(tl.load(state + 1) - tokens, _MOST).to(tl.int32)
    return room, places


@triton.jit
def _takes(target, weight, there, WIDTH: tl.constexpr):
    """What a block takes of each expert, packed: ``[N]`` int64."""
    expert = tl.arange(0, WIDTH)
    is_taken = (expert[None, :] == target[:, None]) & there[:, None]
    return tl.sum(tl.where(is_taken, weight[:, None].to(tl.int64) + _ONE_TAKEN, 0), axis=0)


@triton.jit(do_not_specialize=["turn_of_all", "most_blocks"])
def _round(
    probabilities,
    similarity,
    ids,
    settings,
    units,
    state,
    limits,
    held,
    queue,
    turns,
    moved,
    taken,
    changed,
    turn_of_all,
    most_blocks,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    HAS_SIMILARITY: tl.constexpr,
    SIZE: tl.constexpr,
):
    """One round: each pair chooses anew, given what the choices of the last round would leave.

    Grid: (blocks of pairs). A pair's choice depends on those before it in the queue only. So the
    first pair is right after one round, the second after two at most; and if a round changes
    nothing in front of some pair, all in front of it are as if one had chosen after the other.
    Pairs compete for few experts, so a dozen rounds do for thousands of pairs. Blocks see choices
    of this round or of the last one of their row's pairs elsewhere: where nothing changes these
    are the same, and nothing else counts.
    """
    number = tl.load(state).to(tl.int32)
    part = tl.program_id(0)
    first = part * SIZE
    if (first >= number) | (option(settings, REROUTE) == 0):
        return
    before = tl.zeros((WIDTH,), tl.int64)
    if turn_of_all > 0:
        if tl.load(changed + turn_of_all - 1) == _NEVER:
            return
        last = taken + ((turn_of_all + 1) % 2).to(tl.int64) * most_blocks * EXPERTS
        before = _taken_before(last, part, EXPERTS, WIDTH)
    there, slot, row, origin, weight = _pairs(
        queue, ids, units, first, number, EXPERTS, TOP_K, SIZE
    )
    liking, probability, open_to, least = _likings(
        probabilities,
        similarity,
        ids,
        settings,
        there,
        row,
        origin,
        EXPERTS,
        WIDTH,
        TOP_K,
        HAS_SIMILARITY,
    )
    room, places = _left(limits, held, state, before, EXPERTS, WIDTH)
    turn = first + tl.arange(0, SIZE)
    target = tl.load(moved + slot, mask=there, other=EXPERTS).to(tl.int32)
    choice = _choices(
        target,
        turn,
        there,
        row,
        weight,
        liking,
        probability,
        open_to,
        least,
        room,
        places,
        ids,
        turns,
        moved,
        EXPERTS,
        WIDTH,
        TOP_K,
        HAS_SIMILARITY,
    )
    news = tl.min(tl.where(there & (choice != target), turn, _NEVER), axis=0)
    # Once more inside the block: it saves rounds.
    choice = _choices(
        choice,
        turn,
        there,
        row,
        weight,
        liking,
        probability,
        open_to,
        least,
        room,
        places,
        ids,
        turns,
        moved,
        EXPERTS,
        WIDTH,
        TOP_K,
        HAS_SIMILARITY,
    )
    tl.store(moved + slot, choice, mask=there)
    expert = tl.arange(0, WIDTH)
    mine = taken + ((turn_of_all % 2).to(tl.int64) * most_blocks + part) * EXPERTS
    tl.store(mine + expert, _takes(choice, weight, there, WIDTH), mask=expert < EXPERTS)
    if news < _NEVER:
        tl.atomic_min(changed + turn_of_all, news, sem="relaxed")


@triton.jit
def _settle(
    probabilities,
    similarity,
    ids,
    settings,
    units,
    state,
    limits,
    held,
    queue,
    turns,
    moved,
    taken,
    changed,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP_K: tl.constexpr,
    HAS_SIMILARITY: tl.constexpr,
    SIZE: tl.constexpr,
    LAST: tl.constexpr,
):
    """Go on where the rounds have left something open, block after block; add up what is held.

    Grid: (1).
    """
    if option(settings, REROUTE) == 0:
        return
    number = tl.load(state).to(tl.int32)
    start = tl.minimum(tl.load(changed + LAST), number)
    done = tl.where(start == number, tl.cdiv(number, SIZE), start // SIZE)
    total = _taken_before(taken, done, EXPERTS, WIDTH)
    for first in range(done * SIZE, number, SIZE):
        there, slot, row, origin, weight = _pairs(
            queue, ids, units, first, number, EXPERTS, TOP_K, SIZE
        )
        liking, probability, open_to, least = _likings(
            probabilities,
            similarity,
            ids,
            settings,
            there,
            row,
            origin,
            EXPERTS,
            WIDTH,
            TOP_K,
            HAS_SIMILARITY,
        )
        room, places = _left(limits, held, state, total, EXPERTS, WIDTH)
        turn = first + tl.arange(0, SIZE)
        target = tl.load(moved + slot, mask=there, other=EXPERTS).to(tl.int32)
        changes = 1
        while changes > 0:
            choice = _choices(
                target,
                turn,
                there,
                row,
                weight,
                liking,
                probability,
                open_to,
                least,
                room,
                places,
                ids,
                turns,
                moved,
                EXPERTS,
                WIDTH,
                TOP_K,
                HAS_SIMILARITY,
            )
            changes = tl.sum((there & (choice != target)).to(tl.int32), axis=0)
            target = choice
            tl.debug_barrier()  # all have read where the row's pairs go
            tl.store(moved + slot, target, mask=there)
            tl.debug_barrier()
        total += _takes(target, weight, there, WIDTH)
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    used = tl.load(held + expert, mask=exists, other=0)
    tokens = tl.load(held + EXPERTS + expert, mask=exists, other=0)
    tl.store(held + expert, used + total % _ONE_TAKEN, mask=exists)
    tl.store(held + EXPERTS + expert, tokens + total // _ONE_TAKEN, mask=exists)


_ROUND = Kernel(_round, num_warps=8)
_SETTLE = Kernel(_settle, num_warps=8)


def reroute(work: Workspace) -> None:
    """Write new experts of the pairs in ``queue`` to ``moved``; ``held`` grows."""
    known = work.similarity is not None
    tensors = (
        work.probabilities,
        work.similarity if work.similarity is not None else work.probabilities,
        work.ids,
        work.settings,
        work.units,
        work.state,
        work.limits,
        work.held,
        work.queue,
        work.turns,
        work.moved,
        work.taken,
        work.changed,
    )
    constants = (work.experts, work.width, work.top_k, known, BLOCK)
    most = blocks(work.ids.numel(), BLOCK)
    for turn in range(ROUNDS):
        _ROUND((most, 1, 1), tensors, (turn, most), constants)
    # The number of rounds is odd, so the last one wrote the first half of ``taken``; so did the
    # only one that ran where nothing had a place to go.
    _SETTLE((1, 1, 1), tensors, (), (*constants, ROUNDS - 1))
