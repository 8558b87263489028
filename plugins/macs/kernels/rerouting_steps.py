"""Steps that both ways of re-routing share; blocks are ``B`` pairs of the queue."""

from __future__ import annotations

import triton
import triton.language as tl

from .settings import (
    DEVICE,
    DEVICES,
    LOCALITY,
    LOCALITY_SOURCE,
    REROUTE_THRESHOLD,
    SIMILARITY,
    SIMILARITY_EXPERT,
    option,
    options,
)

NEVER = tl.constexpr(2147483647)
ONE_TAKEN = tl.constexpr(1 << 40)  # a token, above the weight of all rows: one sum counts both
_ONE_TOKEN = tl.constexpr(1 << 24)  # the same, above the weight of a block
_MOST = tl.constexpr(1 << 30)


@triton.jit
def pairs(
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
def likings(
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
def choices(
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
    picked = expert[None, :] == target[:, None]  # [B,N]
    load = tl.where(picked, weight[:, None] + _ONE_TOKEN, 0)
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
        place = tl.load(turns + slot, mask=there_too, other=NEVER)
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
def taken_before(taken, end, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
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
def left(limits, held, state, before, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """Room and places ``[N]`` int32, no more than a block can use."""
    expert = tl.arange(0, WIDTH)
    exists = expert < EXPERTS
    used = tl.load(held + expert, mask=exists, other=0) + before % ONE_TAKEN
    tokens = tl.load(held + EXPERTS + expert, mask=exists, other=0) + before // ONE_TAKEN
    room = tl.load(limits + expert, mask=exists, other=0) - used
    room = tl.maximum(tl.minimum(room, _MOST), -1).to(tl.int32)
    places = tl.minimum(tl.load(state + 1) - tokens, _MOST).to(tl.int32)
    return room, places


@triton.jit
def takes(target, weight, there, WIDTH: tl.constexpr):
    """What a block takes of each expert, packed: ``[N]`` int64."""
    expert = tl.arange(0, WIDTH)
    is_taken = (expert[None, :] == target[:, None]) & there[:, None]
    return tl.sum(tl.where(is_taken, weight[:, None].to(tl.int64) + ONE_TAKEN, 0), axis=0)
