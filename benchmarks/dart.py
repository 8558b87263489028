"""DART and compaction: the kernels against torch operators, in results and in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from ..core import PipelineIO
from ..pruners import PruneRequest, VisualPrunerConfig, create_visual_pruner
from ..pruners.compaction import indexed
from ..pruners.dart import torch_rows
from ..pruners.kernels.cosines import pivot_cosines
from ..pruners.kernels.dart import dart_rows
from ..pruners.kernels.gather import gather
from ..pruners.kernels.growth import grow
from ..pruners.kernels.norms import row_norms
from ..pruners.kernels.orders import pivot_orders
from ..pruners.kernels.pivots import find_pivots
from ..pruners.kernels.places import place_table
from ..pruners.layout import Layout
from ..pruners.norms import torch_l1, torch_l2
from .checks import WrongResult
from .prompts import PromptShape
from .timing import Call, Timer, poison

_MOST_MOVED = 0.01  # of the kept rows, between near-equal cosines summed in another order
_LARGEST_ERROR = 5e-5  # of a cosine, summed in fp32 as tensor cores do


@dataclass(frozen=True)
class Case:
    """One prompt on the device and how it is to be pruned."""

    io: PipelineIO
    ratio: float
    pivots: tuple[int, int] = (4, 4)  # image, text: the defaults

    @cached_property
    def layout(self) -> Layout:
        return PruneRequest(self.io, VisualPrunerConfig(True, reduction_ratio=self.ratio)).layout

    @cached_property
    def table(self) -> Tensor:
        return place_table(self.layout, self.io.embeds.device)

    def kernels(self) -> tuple[Tensor, PipelineIO]:
        """Selection and compaction by the kernels."""
        l1, l2 = row_norms(self.io.embeds)
        kept = dart_rows(self.io.embeds, l1, l2, self.layout, self.table, *self.pivots)
        return kept, gather(self.io, kept, self.layout, self.table, l2)

    def operators(self) -> tuple[Tensor, PipelineIO]:
        """The same by torch operators."""
        kept = self.rows_by_operators(self.io.embeds)
        return kept, indexed(self.io, kept, self.layout)

    def rows_by_operators(self, embeds: Tensor) -> Tensor:
        return torch_rows(embeds, torch_l1(embeds), torch_l2(embeds), self.layout, *self.pivots)

    def stages(self) -> dict[str, Call]:
        """Each kernel alone, on the results of those before it."""
        embeds, layout, table, pivots = self.io.embeds, self.layout, self.table, self.pivots
        l1, l2 = row_norms(embeds)
        found = find_pivots(l1, table, layout, *pivots)
        cosines = pivot_cosines(embeds, l2, table, layout, found, *pivots)
        orders = pivot_orders(cosines, table, layout, *pivots)
        kept = grow(orders, table, layout, found, *pivots)
        return {
            "norms": lambda: row_norms(embeds),
            "pivots": lambda: find_pivots(l1, table, layout, *pivots),
            "cosines": lambda: pivot_cosines(embeds, l2, table, layout, found, *pivots),
            "orders": lambda: pivot_orders(cosines, table, layout, *pivots),
            "growth": lambda: grow(orders, table, layout, found, *pivots),
            "compaction, gather kernel": lambda: gather(self.io, kept, layout, table, l2),
            "compaction, torch operators": lambda: indexed(self.io, kept, layout),
        }


def check(
    shape: PromptShape,
    ratio: float,
    pivots: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
) -> dict[str, float]:
    """Compare the kernels with fp32 on the CPU, on ties and on random numbers.

    With ties, where all sums are exact, the kept rows must be the same. Of random numbers' a few
    may differ, where two cosines do by rounding only.

    Raises:
        WrongResult: more differ, or a cosine is off, or the gathered rows are not the kept ones.
    """
    found: dict[str, float] = {}
    for ties in (True, False):
        seed = int(torch.randint(2**31, (1,)))
        case = Case(shape.make(seed, dtype, device, ties), ratio, pivots)
        name = f"DART {shape} {dtype} r={ratio} pivots={pivots} ties={ties} seed={seed}"
        poison(device)
        kept, short = case.kernels()
        expected = case.rows_by_operators(case.io.embeds.float().cpu())
        moved = int((~torch.isin(kept.cpu(), expected)).sum()) / len(expected)
        if kept.shape != expected.shape or moved > (0 if ties else _MOST_MOVED):
            raise WrongResult(f"{name}: {moved:.2%} of the kept rows are others")
        by_index = indexed(case.io, kept, case.layout)
        for field in ("embeds", "deepstack", "token_ids", "positions"):
            if not torch.equal(getattr(short, field), getattr(by_index, field)):
                raise WrongResult(f"{name}: {field} are not those of the kept rows")
        error = cosine_error(case)
        if not error < _LARGEST_ERROR:
            raise WrongResult(f"{name}: a cosine is off by {error:.1e}")
        found = {"kept_otherwise": moved, "error": error}
    return found


def cosine_error(case: Case) -> float:
    """Largest error of the kernels' cosines against fp64."""
    embeds, layout = case.io.embeds, case.layout
    l1, l2 = row_norms(embeds)
    image, text = case.pivots
    pivots = find_pivots(l1, case.table, layout, image, text)
    found = pivot_cosines(embeds, l2, case.table, layout, pivots, image, text)
    directions = torch.nn.functional.normalize(embeds.double(), dim=1)
    shared = pivots[-1][: min(text, layout.text_tokens)]
    error, column = 0.0, 0
    for place, own in zip(layout.places, pivots[:-1], strict=True):
        turns = torch.cat((own[: min(image, place.kept)], shared)).long()
        expected = directions[turns] @ directions[place.start : place.start + place.length].T
        block = found[: len(turns), column : column + place.length]
        error = max(error, float((block - expected).abs().max()))
        column += place.length
    return error


def measure(shape: PromptShape, ratio: float, timer: Timer, sets: int) -> Iterator[dict[str, Any]]:
    """Times of selection and compaction in bf16, and of each stage, over ``sets`` prompts."""
    cases = [Case(shape.make(s, torch.bfloat16, timer.device, False), ratio) for s in range(sets)]
    config = VisualPrunerConfig(True, reduction_ratio=ratio, min_visual_tokens=0)
    prune = create_visual_pruner(config).prune
    ways: dict[str, list[Call]] = {
        "DART and compaction, kernels": [case.kernels for case in cases],
        "DART and compaction, prune()": [partial(prune, case.io) for case in cases],
        "DART and compaction, torch": [case.operators for case in cases],
    }
    for case in cases:
        for stage, call in case.stages().items():
            ways.setdefault(f"  {stage}", []).append(call)
    for way, calls in ways.items():
        yield {
            "what": way,
            "shape": str(shape),
            "ratio": ratio,
            "eager_ms": timer.eager(calls),
            "host_ms": timer.host(calls),
            # What prune() does on the host, such as its report, is no part of a graph.
            "graph_ms": None if "prune()" in way else timer.graph(calls),
        }
