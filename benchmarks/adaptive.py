"""The automatic ratio: the kernel against torch operators, in results and in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..core import PipelineIO
from ..pruners.adaptive import ImageBudget, budgets, distinct_shares, span_edges
from ..pruners.kernels.distinct import count_distinct
from .checks import WrongResult
from .prompts import PromptShape
from .timing import Call, Timer, poison

Count = Callable[[Tensor, Tensor], Tensor]

_WAYS: dict[str, Count] = {"kernel": count_distinct, "torch operators": distinct_shares}
_GROUPS = 16
_NOISE = 0.33  # puts the cosines within a group near 0.9
_LARGEST_ERROR = 0.01  # of a share: one or two pairs whose cosine is 0.9 but for rounding


def check(shape: PromptShape, dtype: torch.dtype, device: torch.device) -> float:
    """Largest error of a share against fp32 on the CPU, on ties and on random groups.

    With ties all sums of products are exact and no cosine is near the threshold: nothing may
    differ but rounding. In groups many cosines are near it.

    Raises:
        WrongResult: it is too large.
    """
    error = 0.0
    for ties in (True, False):
        seed = int(torch.randint(2**31, (1,)))
        io = shape.make(seed, dtype, device, ties)
        embeds = io.embeds if ties else grouped(io.embeds, seed)
        poison(device)
        found = count_distinct(embeds, span_edges(io.spans, device)).cpu()
        expected = distinct_shares(embeds.float().cpu(), span_edges(io.spans, torch.device("cpu")))
        off = float((found - expected).abs().max())
        if not off < (1e-5 if ties else _LARGEST_ERROR):
            name = f"automatic ratio {shape} {dtype} ties={ties} seed={seed}"
            raise WrongResult(f"{name}: a share of distinct tokens is off by {off:.1e}")
        error = max(error, off)
    return error


def grouped(embeds: Tensor, seed: int) -> Tensor:
    """Each row of ``embeds [T,H]`` near one of the first few."""
    generator = torch.Generator(embeds.device).manual_seed(seed)
    size = (len(embeds),)
    group = torch.randint(min(_GROUPS, *size), size, generator=generator, device=embeds.device)
    return embeds[group] + _NOISE * embeds


def measure(shape: PromptShape, timer: Timer, sets: int) -> Iterator[dict[str, Any]]:
    """Times in bf16 over ``sets`` prompts: to ratios on the host and, in a graph, on the device."""
    prompts = [shape.make(s, torch.bfloat16, timer.device, False) for s in range(sets)]
    given = [(io.embeds, span_edges(io.spans, timer.device)) for io in prompts]
    for way, count in _WAYS.items():
        calls: list[Call] = [partial(_adapted, io, count) for io in prompts]
        yield {
            "what": f"automatic ratio, {way}",
            "shape": str(shape),
            "eager_ms": timer.eager(calls),
            "host_ms": timer.host(calls),
            # The spans' way to the device and the shares' way back are no part of a graph.
            "graph_ms": timer.graph([partial(count, *inputs) for inputs in given]),
        }


def _adapted(io: PipelineIO, count: Count) -> tuple[ImageBudget, ...]:
    """All that ``adapt`` does, from the spans on the host to the ratios there."""
    return budgets(count(io.embeds, span_edges(io.spans, io.embeds.device)), 0.1, 0.5)
