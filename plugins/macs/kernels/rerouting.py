"""Re-routing in the order of its queue, all pairs at a time."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel, blocks
from .rerouting_steps import (
    NEVER,
    ONE_TAKEN,
    choices,
    left,
    likings,
    pairs,
    taken_before,
    takes,
)
from .settings import REROUTE, option
from .workspace import BLOCK, ROUNDS, Workspace


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
        if tl.load(changed + turn_of_all - 1) == NEVER:
            return
        last = taken + ((turn_of_all + 1) % 2).to(tl.int64) * most_blocks * EXPERTS
        before = taken_before(last, part, EXPERTS, WIDTH)
    there, slot, row, origin, weight = pairs(queue, ids, units, first, number, EXPERTS, TOP_K, SIZE)
    liking, probability, open_to, least = likings(
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
    room, places = left(limits, held, state, before, EXPERTS, WIDTH)
    turn = first + tl.arange(0, SIZE)
    target = tl.load(moved + slot, mask=there, other=EXPERTS).to(tl.int32)
    choice = choices(
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
    news = tl.min(tl.where(there & (choice != target), turn, NEVER), axis=0)
    # Once more inside the block: it saves rounds.
    choice = choices(
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
    tl.store(mine + expert, takes(choice, weight, there, WIDTH), mask=expert < EXPERTS)
    if news < NEVER:
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
    total = taken_before(taken, done, EXPERTS, WIDTH)
    for first in range(done * SIZE, number, SIZE):
        there, slot, row, origin, weight = pairs(
            queue, ids, units, first, number, EXPERTS, TOP_K, SIZE
        )
        liking, probability, open_to, least = likings(
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
        room, places = left(limits, held, state, total, EXPERTS, WIDTH)
        turn = first + tl.arange(0, SIZE)
        target = tl.load(moved + slot, mask=there, other=EXPERTS).to(tl.int32)
        changes = 1
        while changes > 0:
            choice = choices(
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
        total += takes(target, weight, there, WIDTH)
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    used = tl.load(held + expert, mask=exists, other=0)
    tokens = tl.load(held + EXPERTS + expert, mask=exists, other=0)
    tl.store(held + expert, used + total % ONE_TAKEN, mask=exists)
    tl.store(held + EXPERTS + expert, tokens + total // ONE_TAKEN, mask=exists)


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
