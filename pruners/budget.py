"""Sharing a token budget out: between parts of a prompt, and to the best tokens of each part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .request import PruneRequest

_ROUNDING = 1e-6  # what fp32 weights may take from a share that is meant to be whole


def apportion(total: int, weights: Sequence[float], sizes: Sequence[int]) -> list[int]:
    """Split ``total`` in proportion to ``weights``, giving no part more than its size.

    Parts whose share reaches their size are filled, and the others split the rest by the same rule.
    Shares round down, and the heaviest parts get one more until nothing is left. Weights that are
    all 0 count as equal. Requires ``0 <= total <= sum(sizes)`` and no negative weight.
    """
    shares = [0] * len(sizes)
    room = list(range(len(sizes)))
    while True:
        mass = sum(weights[part] for part in room)
        fractions = {part: weights[part] / mass if mass else 1 / len(room) for part in room}
        exact = {part: total * fraction + _ROUNDING for part, fraction in fractions.items()}
        full = [part for part in room if exact[part] >= sizes[part]]
        if not full:
            break
        for part in full:
            shares[part] = sizes[part]
            total -= sizes[part]
        room = [part for part in room if part not in full]
    for part in room:
        shares[part] = math.floor(exact[part])
        total -= shares[part]
    for part in sorted(room, key=lambda part: -weights[part])[:total]:
        shares[part] += 1
    return shares


def even_sizes(total: int, parts: int) -> list[int]:
    """``total`` split into ``parts`` sizes that differ by at most 1, the larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def group_of_each(sizes: Sequence[int], device: torch.device) -> Tensor:
    """Number ``[sum(sizes)]`` int64 of the group each of these consecutive tokens is in."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


def rank_in_group(scores: Tensor, groups: Tensor) -> Tensor:
    """Rank ``[n]`` int64 of each score among those of its group: 0 is the largest, ties in order.

    Args:
        scores: ``[n]``.
        groups: ``[n]`` int64, ascending: the group of each score.
    """
    best_first = scores.argsort(descending=True, stable=True)  # [n]
    best_first = best_first[groups[best_first].argsort(stable=True)]  # the same, group by group
    places = torch.arange(len(scores), device=scores.device) - torch.searchsorted(groups, groups)
    return torch.empty_like(places).scatter_(0, best_first, places)


def choose_in_spans(
    request: PruneRequest, choose: Callable[[slice, int], Tensor], longest: int | None = None
) -> Tensor:
    """Fill each span's quota by ``choose(rows, quota)`` and return the kept rows ``[k]``.

    ``rows`` is a slice of the prompt, and ``choose`` returns ``quota`` distinct offsets into it, on
    the prompt's device. A span of more than ``longest`` tokens is cut into equal bands, each with
    its proportional part of the quota.
    """
    kept = []
    for span, quota in zip(request.io.spans, request.quotas, strict=True):
        sizes = even_sizes(len(span), -(-len(span) // (longest or len(span))))
        start = span.start
        for size, share in zip(sizes, apportion(quota, sizes, sizes), strict=True):
            rows = slice(start, start + size)
            kept.append(start + choose(rows, share))
            start += size
    return torch.cat(kept)
