"""Who an expert takes: first fit in order, many tokens at a time."""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel
from .settings import KEEP_TOP1_TEXT, options
from .workspace import Workspace

_CHUNK = 1024
_MOST = tl.constexpr(1 << 30)  # beyond what the tokens of a chunk can weigh together


@triton.jit(do_not_specialize=["count"])
def _admission(
    probabilities,
    visual,
    settings,
    units,
    state,
    limits,
    asked,
    held,
    ordered,
    moved,
    turned_keys,
    turned,
    count,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Grid: (N). Walks the expert's candidates in order, a chunk at a time.

    In a chunk, whoever is in front of the first that does not fit is taken at once. That first one
    is heavier than the room now left, and so is out for good with all that are as heavy, for room
    only shrinks. What remains fits one by one, and the next round begins. So a chunk takes a few
    rounds, not as many steps as it has tokens, and the result is that of first fit.
    """
    expert = tl.program_id(0)
    number = tl.load(asked + EXPERTS + expert).to(tl.int32)
    limit = tl.load(limits + expert)
    most = tl.load(state + 1)
    keeps = options(settings, KEEP_TOP1_TEXT, CHUNK) > 0
    lane = tl.arange(0, CHUNK)
    used = tl.full((), 0, tl.int64)
    tokens = tl.full((), 0, tl.int64)
    for first in range(0, number, CHUNK):
        there = first + lane < number
        slot = tl.load(ordered + expert.to(tl.int64) * count + first + lane, mask=there, other=0)
        row = slot // TOP_K
        weight = tl.load(units + row, mask=there, other=0)
        text = there & (tl.load(visual + row, mask=there, other=1) == 0)
        taken = text & (slot % TOP_K == 0) & keeps
        used += tl.sum(tl.where(taken, weight, 0), axis=0).to(tl.int64)
        tokens += tl.sum(taken.to(tl.int32), axis=0).to(tl.int64)

        room = tl.minimum(limit - used, _MOST).to(tl.int32)
        places = tl.minimum(most - tokens, CHUNK).to(tl.int32)
        waits = there & (~taken) & (weight <= tl.where(places > 0, room, -1))
        while tl.max(waits.to(tl.int32), axis=0) > 0:
            waiting = waits.to(tl.int32)
            fits = waits & (tl.cumsum(weight * waiting, 0) <= room)
            fits = fits & (tl.cumsum(waiting, 0) <= places)
            taken = taken | fits
            gained = tl.sum(tl.where(fits, weight, 0), axis=0)
            joined = tl.sum(fits.to(tl.int32), axis=0)
            room -= gained
            places -= joined
            used += gained.to(tl.int64)
            tokens += joined.to(tl.int64)
            waits = waits & (~fits) & (weight <= tl.where(places > 0, room, -1))

        out = there & (~taken)
        refusals = tl.sum(out.to(tl.int32), axis=0)
        if refusals > 0:
            # Where in the common list is a matter of chance; its order comes from the keys.
            start = tl.atomic_add(state, refusals.to(tl.int64), sem="relaxed")
            place = start + tl.cumsum(out.to(tl.int32), 0) - 1
            score = tl.load(probabilities + row.to(tl.int64) * EXPERTS + expert, mask=out, other=0)
            pair = row * EXPERTS + expert  # the earlier the better
            bits = score.to(tl.int32, bitcast=True).to(tl.int64)
            tl.store(turned_keys + place, (bits << 31) | (0x7FFFFFFF - pair), mask=out)
            tl.store(turned + place, slot, mask=out)
            tl.store(moved + slot, tl.full((CHUNK,), EXPERTS, tl.int32), mask=out)
    tl.store(held + expert, used)
    tl.store(held + EXPERTS + expert, tokens)


_KERNEL = Kernel(_admission, num_warps=8)


def admit(work: Workspace) -> None:
    """Fill ``held, turned_keys, turned`` and the first of ``state`` from ``ordered``;
    what overflows becomes N in ``moved``.
    """
    tensors = (
        work.probabilities,
        work.visual,
        work.settings,
        work.units,
        work.state,
        work.limits,
        work.asked,
        work.held,
        work.ordered,
        work.moved,
        work.turned_keys,
        work.turned,
    )
    constants = (work.experts, work.top_k, _CHUNK)
    _KERNEL((work.experts, 1, 1), tensors, (work.count,), constants)
