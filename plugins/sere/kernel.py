"""Re-routing in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, blocks, power_of_two

_TILE = 16  # experts whose slots one program rewrites
_SLOTS = 256  # that it looks at for them
_ROWS = 128  # whose votes a program reads at a time
_FEW_ROWS = 64  # up to which four warps are faster than eight
_COUNTED = 16384  # similarities that the counting program holds at a time
_LEAST_WIDTH = 64


@triton.jit(do_not_specialize=["rows"])
def _reroute(
    ids,
    similarity,
    protected,
    decode_rows,
    top_k,
    threshold,
    routed,
    active,
    rows,
    K: tl.constexpr,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    SLOTS: tl.constexpr,
    ROWS: tl.constexpr,
    COUNTED: tl.constexpr,
    ADD: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Rewrite the slots that name some experts, or count the experts in use.

    Grid: counters + (experts / TILE) * (slots / SLOTS). Programs share nothing and need no order.
    Each finds out by itself which experts are primary, then where its own TILE experts go, and
    rewrites those of its SLOTS that name one of them. Similarities are asked for first: they are
    on their way while the kernel that makes the ids still runs.

    Counts that are stored take one program that sees the whole matrix, the longest of all: 4 N^2
    bytes through one multiprocessor, at 64 bytes a cycle 0.5 us for 128 experts. Counts that are
    added (ADD) take one for each TILE experts. All the rest is latency: a launch that only copies
    the ids takes 1.1 us.
    """
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
    tiles: tl.constexpr = (EXPERTS + TILE - 1) // TILE
    counters: tl.constexpr = tiles if ADD else 1
    program = tl.program_id(0)
    first = (program if ADD else program - 1) % tiles * TILE
    if program >= counters:
        slot = (program - counters) // tiles * SLOTS + tl.arange(0, SLOTS)
        _move(ids, similarity, protected, decode_rows, top_k, threshold, routed, rows, first, slot,
              K, EXPERTS, WIDTH, TILE, ROWS, OVERLAP)  # fmt: skip
    elif ADD:
        _add(ids, similarity, protected, decode_rows, top_k, threshold, active, rows, first,
             K, EXPERTS, WIDTH, TILE, ROWS, OVERLAP)  # fmt: skip
    else:
        _count(ids, similarity, protected, decode_rows, top_k, threshold, active, rows,
               K, EXPERTS, WIDTH, ROWS, COUNTED, OVERLAP)  # fmt: skip


@triton.jit
def _move(
    ids, similarity, protected, decode_rows, top_k, threshold, routed, rows, first, slot,
    K: tl.constexpr, EXPERTS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    ROWS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Rewrite the slots among ``slot`` of experts ``first`` and the TILE - 1 after it."""
    mine = first + tl.arange(0, TILE)
    near, guarded = _tables(similarity, protected, mine, EXPERTS, WIDTH)
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    inside = slot < rows * K
    expert = tl.load(ids + slot, mask=inside, other=-1)
    votes = (tl.load(decode_rows + slot // K, mask=inside, other=0) != 0) & _named(expert, EXPERTS)
    target = _targets(ids, near, guarded, decode_rows, top_k, threshold, rows, mine,
                      K, EXPERTS, WIDTH, ROWS)  # fmt: skip
    owner = tl.where(votes, expert, 0).to(tl.int32)  # who copies what has no vote
    there = inside & (owner >= first) & (owner < first + TILE)
    moved = tl.gather(target, tl.where(there, owner - first, 0), 0)
    tl.store(routed + slot, tl.where(votes, moved, expert), mask=there)


@triton.jit
def _add(
    ids, similarity, protected, decode_rows, top_k, threshold, active, rows, first,
    K: tl.constexpr, EXPERTS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    ROWS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Add to ``active`` those of TILE experts that are in use, and those that stay so."""
    slots: tl.constexpr = triton.next_power_of_2(K)
    bins: tl.constexpr = max(TILE, 32)
    mine = first + tl.arange(0, TILE)
    near, guarded = _tables(similarity, protected, mine, EXPERTS, WIDTH)
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    expert, votes = _read(ids, decode_rows, 0, 0, slots, rows, K, EXPERTS, ROWS)
    target = _targets(ids, near, guarded, decode_rows, top_k, threshold, rows, mine,
                      K, EXPERTS, WIDTH, ROWS)  # fmt: skip
    own = votes & (expert >= first) & (expert < first + TILE)
    counts = tl.histogram(expert - first, bins, mask=own)
    for start in range(ROWS, rows, ROWS):
        expert, votes = _read(ids, decode_rows, start, 0, slots, rows, K, EXPERTS, ROWS)
        own = votes & (expert >= first) & (expert < first + TILE)
        counts += tl.histogram(expert - first, bins, mask=own)
    used = (tl.gather(counts, tl.arange(0, TILE), 0) > 0).to(tl.int32)
    stays = used * (target == mine).to(tl.int32)
    both = tl.sum(used + (stays << 16), axis=0)
    tl.atomic_add(active, (both & 0xFFFF).to(tl.int64), sem="relaxed")
    tl.atomic_add(active + 1, (both >> 16).to(tl.int64), sem="relaxed")


@triton.jit
def _count(
    ids, similarity, protected, decode_rows, top_k, threshold, active, rows,
    K: tl.constexpr, EXPERTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COUNTED: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Store how many experts are in use, and how many of them stay so: the primary ones and those
    that do not move, wherever the others go."""
    slots: tl.constexpr = triton.next_power_of_2(K)
    column = tl.arange(0, WIDTH)
    guarded = tl.load(protected + column, mask=column < EXPERTS, other=0) != 0
    near = _similarities(similarity, tl.arange(0, COUNTED), EXPERTS, WIDTH)
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    strong = tl.load(top_k)
    early, early_votes = _read(ids, decode_rows, 0, 0, 2, rows, K, EXPERTS, ROWS)
    expert, votes = _read(ids, decode_rows, 0, 0, slots, rows, K, EXPERTS, ROWS)
    least = _least(threshold)
    primary = _primary(early, early_votes, strong, ids, decode_rows, rows, K, EXPERTS, WIDTH, ROWS)
    counts = tl.histogram(expert, WIDTH, mask=votes)
    for start in range(ROWS, rows, ROWS):
        expert, votes = _read(ids, decode_rows, start, 0, slots, rows, K, EXPERTS, ROWS)
        counts += tl.histogram(expert, WIDTH, mask=votes)
    used = counts > 0
    firm = primary | (used & guarded)
    state = used.to(tl.int32) + firm.to(tl.int32)  # 0: not in use, 1: stays if it must, 2: stays
    total = 0
    for start in range(0, WIDTH, COUNTED):
        row = start + tl.arange(0, COUNTED)
        leaves = tl.max((primary[None, :] & (near >= least)).to(tl.int32), axis=1)
        near = _similarities(similarity, row + COUNTED, EXPERTS, WIDTH)
        own = tl.gather(state, row, 0)
        stays = own > leaves
        total += tl.sum((own > 0).to(tl.int32) + (stays.to(tl.int32) << 16), axis=0)
    tl.store(active, total & 0xFFFF)
    tl.store(active + 1, total >> 16)


@triton.jit
def _targets(
    ids, near, guarded, decode_rows, top_k, threshold, rows, mine,
    K: tl.constexpr, EXPERTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Where the experts ``mine`` go, if they are in use; ``near, guarded`` are their tables."""
    strong = tl.load(top_k)
    early, early_votes = _read(ids, decode_rows, 0, 0, 2, rows, K, EXPERTS, ROWS)
    least = _least(threshold)
    primary = _primary(early, early_votes, strong, ids, decode_rows, rows, K, EXPERTS, WIDTH, ROWS)

    column = tl.arange(0, WIDTH)
    # Nothing is nearer to a primary expert than itself.
    near = tl.where(column[None, :] == mine[:, None], float("inf"), near)
    near = tl.where(primary[None, :] & (near >= least), near, float("-inf"))
    best = tl.max(near, axis=1)
    nearest = tl.min(tl.where(near == best[:, None], column[None, :], WIDTH), axis=1)
    return tl.where(guarded | (best == float("-inf")), mine, nearest)


@triton.jit
def _tables(similarity, protected, mine, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """Similarities of the experts ``mine``, ``[TILE,WIDTH]``, and which of them stay."""
    guarded = tl.load(protected + mine, mask=mine < EXPERTS, other=0) != 0
    return _similarities(similarity, mine, EXPERTS, WIDTH), guarded


@triton.jit
def _primary(
    expert, votes, strong, ids, decode_rows, rows,
    K: tl.constexpr, EXPERTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Which experts are primary, ``[WIDTH]`` bool.

    Slots are read in pairs: ``expert`` is in the first two of the first ROWS rows, read before it
    was known how many slots are ``strong``.
    """
    pair = tl.arange(0, 2 * ROWS) % 2
    counts = tl.histogram(expert, WIDTH, mask=votes & (pair < strong))
    for slot in range(0, tl.minimum(strong, K).to(tl.int32), 2):
        for start in range(tl.where(slot == 0, ROWS, 0), rows, ROWS):
            expert, votes = _read(ids, decode_rows, start, slot, 2, rows, K, EXPERTS, ROWS)
            counts += tl.histogram(expert, WIDTH, mask=votes & (slot + pair < strong))
    return counts > 0


@triton.jit
def _read(
    ids, decode_rows, first_row, first_slot, SLOTS: tl.constexpr, rows,
    K: tl.constexpr, EXPERTS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The experts in SLOTS slots of ROWS rows, ``[ROWS * SLOTS]``, and whether they have a vote."""
    place = tl.arange(0, ROWS * SLOTS)
    row, slot = first_row + place // SLOTS, first_slot + place % SLOTS
    inside = (row < rows) & (slot < K)
    expert = tl.load(ids + row * K + slot, mask=inside, other=-1)
    decodes = tl.load(decode_rows + row, mask=inside, other=0) != 0
    return expert.to(tl.int32), decodes & _named(expert, EXPERTS)


@triton.jit
def _named(expert, EXPERTS: tl.constexpr):
    """Whether there is such an expert."""
    return (expert >= 0) & (expert < EXPERTS)


@triton.jit
def _similarities(similarity, row, EXPERTS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows ``row`` of the matrix, ``[rows,WIDTH]``; NaN, which is above nothing, outside it."""
    column = tl.arange(0, WIDTH)
    place = row[:, None] * EXPERTS + column[None, :]
    there = (row < EXPERTS)[:, None] & (column < EXPERTS)[None, :]
    return tl.load(similarity + place, mask=there, other=float("nan"))


@triton.jit
def _least(threshold):
    """The smallest similarity that lets an expert move: any number, where there is no threshold."""
    limit = tl.load(threshold)
    return tl.where(limit > 0, limit, -3.4028234663852886e38)


_FEW = Kernel(_reroute, overlaps=True, num_warps=4)
_MANY = Kernel(_reroute, overlaps=True, num_warps=8)


def reroute(
    expert_ids: Tensor,
    similarity: Tensor,
    protected: Tensor,
    decode_rows: Tensor,
    top_k: Tensor,
    threshold: Tensor,
    totals: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See :func:`~edgevlm.plugins.sere.routing.sere_routing`; contiguous, ``N <= 512``.

    Where launches overlap, ``similarity`` and ``protected`` are read before the kernel that was
    launched last has ended, so that one must not write them.
    """
    rows, k = expert_ids.shape
    experts = similarity.shape[0]
    width = power_of_two(max(experts, _LEAST_WIDTH))
    routed = torch.empty_like(expert_ids)
    active = totals
    if active is None:
        active = torch.empty(2, dtype=torch.int64, device=expert_ids.device)
    tiles = blocks(experts, _TILE)
    counters = 1 if totals is None else tiles
    launch = _FEW if rows <= _FEW_ROWS else _MANY
    launch(
        (counters + tiles * blocks(rows * k, _SLOTS), 1, 1),
        (expert_ids, similarity, protected, decode_rows, top_k, threshold, routed, active),
        (rows,),
        (
            k,
            experts,
            width,
            _TILE,
            _SLOTS,
            min(power_of_two(max(rows, 32)), _ROWS),
            min(width, _COUNTED // width),
            totals is not None,
        ),
    )
    return routed, active
