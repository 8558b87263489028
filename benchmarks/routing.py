"""SERE's re-routing of one decoder layer: one kernel against the same steps in torch operators.

Run ``python -m edgevlm.benchmarks.routing --output routing.json``. The kernel is compared with
the torch reference on the CPU first, also inside a CUDA graph whose inputs change; a difference
ends the run. Times are per layer, in microseconds, of a step through all layers of a model, each
with its own similarity matrix: ``graph_us`` replayed as one CUDA graph, as decoding does;
``memory_us`` the same with so many matrices that none is in the L2 cache; ``eager_us`` without a
graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ..plugins.sere import kernel, reference
from .checks import WrongResult
from .command import command
from .report import Row, environment, table, write_json
from .timing import Timer, poison

_MODULE = "edgevlm.benchmarks.routing"
_TOP_K, _THRESHOLD = 2, 0.5
# Gumbel noise on logits that fall by this much from expert to expert: of 128 experts a batch of
# 128 tokens uses 93 then, as Qwen3-30B-A3B's does on average.
_SKEW = 0.0485
_PROTECTED_SHARE = 8  # one expert in so many

Inputs = tuple[Tensor, ...]
Way = Callable[..., object]


@dataclass(frozen=True)
class Shape:
    """A mixture of experts; each token has ``slots`` of them."""

    layers: int
    experts: int
    slots: int


@dataclass(frozen=True)
class Plan:
    """What is checked and measured; ``sets`` of all layers' matrices exceed the L2 cache."""

    shape: Shape
    batches: tuple[int, ...]
    checked: tuple[tuple[int, int, int], ...]  # experts, slots, rows
    sets: int


FULL = Plan(
    Shape(layers=48, experts=128, slots=8),
    batches=(1, 8, 32, 64, 128, 256, 512),
    checked=((128, 8, 1), (128, 8, 128), (128, 8, 512), (60, 4, 33), (256, 8, 96), (512, 10, 700)),
    sets=24,
)
TOY = Plan(Shape(2, 16, 4), batches=(3,), checked=((20, 4, 5),), sets=1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    return command(_MODULE, (FULL, TOY), run, argv, repeats=50)


def run(plan: Plan, timer: Timer, output: Path | None) -> None:
    """Check, measure, write and print."""
    found = environment(_MODULE, timer.device)
    if output is not None:
        write_json(output, {"environment": found})  # or fail now rather than at the end
    for experts, slots, rows in plan.checked:
        check(experts, slots, rows, timer.device)
    rows_found = [row for batch in plan.batches for row in measure(plan, batch, timer)]
    if output is not None:
        write_json(output, {"environment": found, "routing": rows_found})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    print(f"\n{table(rows_found)}")


def check(experts: int, slots: int, rows: int, device: torch.device) -> None:
    """Compare the kernel with the reference: ties, NaN, padding, dropped slots, all strengths.

    Raises:
        WrongResult: a result differs.
    """
    generator = torch.Generator().manual_seed(int(torch.randint(2**31, (1,))))
    for dtype in (torch.int64, torch.int32):
        for top_k, threshold in ((2, 0.5), (1, 0.0), (0, 0.5), (slots, 0.5), (2, 2.0)):
            inputs = _hard_inputs(experts, slots, rows, top_k, threshold, generator)
            inputs = (inputs[0].to(dtype), *inputs[1:])
            given = tuple(tensor.to(device) for tensor in inputs)
            poison(device)
            name = f"{experts} experts, {rows} rows, {dtype}"
            _compare(kernel.reroute(*given), inputs, name)
            totals = torch.zeros(2, dtype=torch.int64, device=device)
            _compare(kernel.reroute(*given, *[totals]), inputs, f"{name}, counts added")
    if device.type == "cuda":
        _check_graph(experts, slots, rows, device, generator)


def measure(plan: Plan, batch: int, timer: Timer) -> Iterator[Row]:
    """Times of each way at one batch size, and how often the kernel's goes into it."""
    sets = [_layers(plan.shape, batch, seed, timer.device) for seed in range(plan.sets)]
    totals = torch.zeros(2, dtype=torch.int64, device=timer.device)
    ways: dict[str, Way] = {
        "kernel": kernel.reroute,
        "kernel, counts added": lambda *given: kernel.reroute(*given, *[totals]),
        "torch operators": reference.reroute,
        "torch operators, ids only": _ids_only,
        "(copying the ids)": lambda ids, *_: ids.clone(),
    }
    before, after = _active(sets[0])
    base: dict[str, float | None] = {}
    for way, function in ways.items():
        steps = [_step(function, layers) for layers in sets]
        graph = _per_layer(timer.graph(steps[:1]), plan)
        eager = _per_layer(timer.eager(steps[:1]), plan)
        cold = timer.graph(steps) if way.startswith("kernel") else None
        base = base or {"graph": graph, "eager": eager}
        yield {
            "what": way,
            "batch": batch,
            "active_before": before,
            "active_after": after,
            "graph_us": graph,
            "graph_ratio": _ratio(graph, base["graph"]),
            "eager_us": eager,
            "eager_ratio": _ratio(eager, base["eager"]),
            "memory_us": _per_layer(cold, plan),
        }


def _ids_only(
    ids: Tensor,
    similarity: Tensor,
    protected: Tensor,
    _decode_rows: Tensor,
    _top_k: Tensor,
    _threshold: Tensor,
) -> Tensor:
    """The fewest operators: strength fixed, every row decodes, nothing is counted."""
    primary = torch.zeros_like(protected).index_fill_(0, ids[:, :_TOP_K].flatten(), True)
    best, nearest = similarity.masked_fill(~primary, -torch.inf).max(dim=1)
    stays = primary | protected | (best < _THRESHOLD)
    number = torch.arange(len(similarity), device=ids.device)
    return torch.where(stays, number, nearest)[ids]


def _step(function: Way, layers: list[Inputs]) -> Callable[[], object]:
    return lambda: [function(*layer) for layer in layers]


def _layers(shape: Shape, batch: int, seed: int, device: torch.device) -> list[Inputs]:
    """One decode step: a skewed router, similarities spread evenly over 0..1."""
    generator = torch.Generator(device).manual_seed(seed)
    draw = partial(torch.rand, generator=generator, device=device)
    settings = (torch.tensor([_TOP_K], device=device), torch.tensor([_THRESHOLD], device=device))
    rows = torch.ones(batch, dtype=torch.bool, device=device)
    made: list[Inputs] = []
    for _ in range(shape.layers):
        popularity = -_SKEW * torch.randperm(shape.experts, generator=generator, device=device)
        noise = -torch.log(-torch.log(draw(batch, shape.experts)))
        ids = (popularity + noise).topk(shape.slots).indices
        protected = draw(shape.experts) < 1 / _PROTECTED_SHARE
        made.append((ids, draw(shape.experts, shape.experts), protected, rows, *settings))
    return made


def _hard_inputs(
    experts: int, slots: int, rows: int, top_k: int, threshold: float, generator: torch.Generator
) -> Inputs:
    order = torch.rand(rows, experts, generator=generator).argsort()
    ids = order[:, :slots].contiguous()
    ids[torch.rand(rows, slots, generator=generator) < 0.05] = experts
    similarity = (torch.rand(experts, experts, generator=generator) * 8).round() / 8  # ties
    similarity[torch.rand(experts, experts, generator=generator) < 0.05] = torch.nan
    similarity[int(ids[0, -1]) % experts] = torch.nan
    protected = torch.rand(experts, generator=generator) < 0.1
    decode_rows = torch.rand(rows, generator=generator) < 0.8
    return ids, similarity, protected, decode_rows, torch.tensor([top_k]), torch.tensor([threshold])


def _check_graph(
    experts: int, slots: int, rows: int, device: torch.device, generator: torch.Generator
) -> None:
    given = tuple(t.to(device) for t in _hard_inputs(experts, slots, rows, 2, 0.5, generator))
    kernel.reroute(*given)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = kernel.reroute(*given)
    for top_k, threshold in ((1, 0.75), (3, 0.0)):
        inputs = _hard_inputs(experts, slots, rows, top_k, threshold, generator)
        for target, source in zip(given, inputs, strict=True):
            target.copy_(source)
        graph.replay()
        _compare(found, inputs, f"{experts} experts, {rows} rows, in a CUDA graph")


def _compare(found: tuple[Tensor, Tensor], inputs: Inputs, name: str) -> None:
    expected = reference.reroute(*inputs)
    for what, one, other in zip(("ids", "counts"), found, expected, strict=True):
        if one.dtype != other.dtype or not torch.equal(one.cpu(), other):
            raise WrongResult(f"re-routing, {name}: the {what} differ")


def _active(layers: list[Inputs]) -> tuple[float, float]:
    """Distinct experts in use before and after, the mean over ``layers``."""
    counts = torch.stack([reference.reroute(*layer)[1] for layer in layers]).float().mean(dim=0)
    return float(counts[0]), float(counts[1])


def _per_layer(milliseconds: float | None, plan: Plan) -> float | None:
    return None if milliseconds is None else milliseconds * 1e3 / plan.shape.layers


def _ratio(time: float | None, base: float | None) -> float | None:
    return time / base if time is not None and base is not None else None


if __name__ == "__main__":
    sys.exit(main())
