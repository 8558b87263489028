"""Attention of single tokens over the used part of a KV cache, split over many programs."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from ....core.launch import Kernel, power_of_two

_LOG2_E = math.log2(math.e)
_MOST_SPLITS = 64
_FEW_ROWS = 8  # up to which a launch gains by beginning early; with more it loses
_PROGRAMS = 256  # a launch's aim: about two per multiprocessor of a large GPU


@triton.jit(do_not_specialize=["scale", "capacity"])
def _attend(
    qkv,
    slots,
    places,
    k_cache,
    v_cache,
    parts,
    lse,
    scale,
    capacity,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    MEMBERS: tl.constexpr,
    SPLITS: tl.constexpr,
    TOKENS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One piece of one sequence, for all query heads that share a KV head, by online softmax.

    Grid: (rows, KV heads, splits). Pieces have one length and together cover the ``place + 1``
    cached tokens, so cost follows the sequence and not the cache's capacity: 8.2 MB a layer, no
    less than 2 us at 4.3 TB/s, for 2,000 tokens of 8 heads of 128 in bf16.
    """
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    split = tl.program_id(2)
    group: tl.constexpr = HEADS // KV_HEADS
    member = tl.arange(0, MEMBERS)
    column = tl.arange(0, WIDTH)
    token = tl.arange(0, TOKENS)
    mine = (member < group)[:, None]
    query_head = head * group + member

    length = (tl.load(places + row) + 1).to(tl.int32)
    piece = tl.cdiv(tl.cdiv(length, SPLITS), TOKENS) * TOKENS
    begin = split * piece
    end = tl.minimum(begin + piece, length)
    cached = (tl.load(slots + row) * KV_HEADS + head) * capacity * WIDTH
    line = row * (HEADS + 2 * KV_HEADS) * WIDTH
    q = tl.load(
        qkv + line + (query_head * WIDTH)[:, None] + column[None, :], mask=mine, other=0.0
    )  # [MEMBERS,WIDTH]

    top = tl.full((MEMBERS,), float("-inf"), tl.float32)
    total = tl.zeros((MEMBERS,), tl.float32)
    mixed = tl.zeros((MEMBERS, WIDTH), tl.float32)
    for first in tl.range(begin, end, TOKENS):
        there = first + token < end
        offset = cached + (first + token).to(tl.int64)[:, None] * WIDTH + column[None, :]
        k = tl.load(k_cache + offset, mask=there[:, None], other=0.0)  # [TOKENS,WIDTH]
        v = tl.load(v_cache + offset, mask=there[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [MEMBERS,TOKENS]
        score = tl.where(there[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp2(score - new_top[:, None])
        kept = tl.exp2(top - new_top)
        total = total * kept + tl.sum(weight, axis=1)
        mixed = mixed * kept[:, None]
        mixed = tl.dot(weight.to(v.dtype), v, mixed, input_precision="ieee")
        top = new_top
    # A piece without tokens weighs nothing.
    mixed = mixed / tl.where(total > 0, total, 1.0)[:, None]
    norm = tl.where(total > 0, top + tl.log2(tl.where(total > 0, total, 1.0)), float("-inf"))
    place = (row * HEADS + query_head) * SPLITS + split
    tl.store(parts + place[:, None] * WIDTH + column[None, :], mixed, mask=mine)
    tl.store(lse + place, norm, mask=member < group)


@triton.jit
def _combine(parts, lse, out, WIDTH: tl.constexpr, SPLITS: tl.constexpr, OVERLAP: tl.constexpr):
    """The pieces of one row and head, weighted by their log-sum-exp. Grid: (rows, heads)."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    place = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    split = tl.arange(0, SPLITS)
    column = tl.arange(0, WIDTH)
    norm = tl.load(lse + place * SPLITS + split)
    weight = tl.exp2(norm - tl.max(norm, axis=0))  # the first piece is never empty
    part = tl.load(parts + (place * SPLITS + split)[:, None] * WIDTH + column[None, :])
    mixed = tl.sum(part * weight[:, None], axis=0) / tl.sum(weight, axis=0)
    tl.store(out + place * WIDTH + column, mixed)


_FEW = Kernel(_attend, overlaps=True, num_warps=4, num_stages=2)
_MANY = Kernel(_attend, overlaps=True, num_warps=4, num_stages=3)
_SINGLE = Kernel(_attend, overlaps=True, num_warps=4, num_stages=1)
_COMBINE = Kernel(_combine, overlaps=True, num_warps=4)


def attend_cached(
    qkv: Tensor, slots: Tensor, places: Tensor, k_cache: Tensor, v_cache: Tensor
) -> Tensor:
    """Attention ``[R,Hq*D]`` of each row over cache places ``0..places[row]`` of its slot.

    Args:
        qkv: ``[R,(Hq+2Hkv)D]`` contiguous, of which the queries are read; D a power of two from 16.
        slots, places: ``[R]`` int64.
        k_cache, v_cache: ``[B,Hkv,C,D]`` contiguous.
    """
    rows = qkv.shape[0]
    kv_heads, capacity, width = k_cache.shape[1:]
    heads = qkv.shape[1] // width - 2 * kv_heads
    splits = min(_MOST_SPLITS, power_of_two(max(1, _PROGRAMS // (rows * kv_heads))))
    out = qkv.new_empty(rows, heads * width)
    parts = out  # a single piece is all of it
    if splits > 1:
        parts = torch.empty(rows, heads, splits, width, dtype=torch.float32, device=qkv.device)
    lse = torch.empty(rows, heads, splits, dtype=torch.float32, device=qkv.device)
    few = rows <= _FEW_ROWS
    kernel, tokens = (_FEW, 64) if few else (_MANY, 32)
    if qkv.dtype == torch.float32:
        kernel, tokens = _SINGLE, 32
    kernel(
        (rows, kv_heads, splits),
        (qkv, slots, places, k_cache, v_cache, parts, lse),
        (width**-0.5 * _LOG2_E, capacity),
        (heads, kv_heads, width, max(16, power_of_two(heads // kv_heads)), splits, tokens),
        overlap=few,
    )
    if splits > 1:
        _COMBINE((rows, heads, 1), (parts, lse, out), (), (width, splits))
    return out
