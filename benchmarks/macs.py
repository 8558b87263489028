"""Expert capacity at prefill on one GPU: is it right, what does it take, and what does it buy.

Run ``python -m edgevlm.benchmarks.macs --output macs.json``. The layer has the shape of
Qwen3-VL-30B-A3B's, random weights, and a prompt of images and text whose two modalities prefer
different experts, as unevenly as has been reported of that model. The kernels' decisions are
compared with the reference's first, one by one, and a CUDA graph replayed for another prompt than
it was captured with; a wrong one ends the run.

``graph_ms`` is one replay of a CUDA graph, ``eager_ms`` from an idle device to the end of one call.
Both are medians; prompts, and layers' weights, take turns. Indented lines are launches alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ..models import Routing
from ..plugins.experts.grouped import grouped_experts
from ..plugins.macs import (
    MacsConfig,
    MacsReport,
    guaranteed_tokens,
    limited_experts,
    padded_experts,
    token_drop,
)
from ..plugins.macs.kernels.admission import admit
from ..plugins.macs.kernels.macs import LAUNCHES, kernel_macs, prepare
from ..plugins.macs.kernels.rerouting import reroute
from ..plugins.macs.kernels.weights import weigh
from ..plugins.macs.reference import Limited, limit
from .checks import WrongResult
from .command import command
from .report import Row, environment, table, write_json
from .synthetic_router import SyntheticRouter
from .timing import Call, Timer, poison

_MODULE = "edgevlm.benchmarks.macs"
_VISUAL, _TEXT = 256, 64  # rows of an image, and of text before the next one
_SCALES = (0.5, 2.0)  # of the features of visual rows: from flat ones to pronounced ones


Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Plan:
    """The layer's shape, and what is measured."""

    experts: int
    top_k: int
    hidden: int
    width: int
    rows: tuple[int, ...]  # the last also for the experts' products
    factors: tuple[float, ...]
    dtype: torch.dtype
    active: float  # experts in use by 128 tokens
    prompts: int  # that take turns
    configs: tuple[str, ...]  # names in CONFIGS


CONFIGS = {
    "MACS": MacsConfig(),
    "MACS, 4 devices": MacsConfig(devices=4),
    "MACS, capacity factor 0.5": MacsConfig(capacity_factor=0.5),
    "MACS, capacity factor 0.5, 4 devices": MacsConfig(capacity_factor=0.5, devices=4),
    "MACS, capacity factor 0.5, no re-routing": MacsConfig(capacity_factor=0.5, reroute=False),
    "MACS, token limit 1.5": MacsConfig(token_limit=1.5, keep_top1_text=False),
    "Token Drop": MacsConfig(method="token_drop"),
}
FULL = Plan(
    128, 8, 2048, 768, (512, 8192, 2048), (1.0, 1.5, 2.0), torch.bfloat16, 93.0, 4, tuple(CONFIGS)
)
# Small enough for Triton's interpreter, which knows no bf16 matrix product.
TOY = Plan(6, 2, 32, 16, (20,), (1.0,), torch.float16, 5.9, 1, ("MACS", "Token Drop"))

_CHECKED = (
    *CONFIGS.values(),
    MacsConfig(
        capacity_factor=0.7,
        zscore_scope="image",
        capacity_basis="effective",
        order="text_first",
        locality="source",
        devices=2,
        renormalize=True,
    ),
)


@dataclass(frozen=True)
class Prompt:
    """One layer's rows on the device."""

    hidden: Tensor
    routing: Routing
    visual: Tensor
    groups: Tensor

    @classmethod
    def make(
        cls, plan: Plan, router: SyntheticRouter, rows: int, seed: int, device: torch.device
    ) -> Prompt:
        """Images and text in turns; each modality has the preferences of a layer of ``router``."""
        generator = torch.Generator().manual_seed(seed)
        visual = torch.arange(rows) % (_VISUAL + _TEXT) >= _TEXT
        noise = torch.randn(rows, plan.experts, generator=generator)
        preference = router.preference[visual.long()]  # [R,N]
        probabilities = (router.skew * preference + noise).softmax(1)
        best, ids = probabilities.topk(plan.top_k)
        low, high = _SCALES
        scale = low + (high - low) * torch.rand(rows, 1, generator=generator)
        hidden = torch.randn(rows, plan.hidden, generator=generator) * scale
        weights = (best / best.sum(1, keepdim=True)).to(plan.dtype)
        leaning = router.preference[1] - router.preference[0]
        groups = (leaning > 0.5).float() - (leaning < -0.5).float()
        return cls(
            hidden.to(device, plan.dtype),
            Routing(probabilities.to(device), ids.to(device), weights.to(device)),
            visual.to(device),
            groups.to(device),
        )

    @property
    def inputs(self) -> Inputs:
        """What ``MacsCapacity`` takes, but the settings."""
        routing, everyone = self.routing, torch.ones_like(self.visual)
        choice = routing.probabilities, routing.ids, routing.weights
        return self.hidden, *choice, everyone, self.visual, self.groups


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    return command(_MODULE, (FULL, TOY), run, argv, repeats=30)


def run(plan: Plan, timer: Timer, output: Path | None) -> None:
    """Check, measure, write and print."""
    found = environment(_MODULE, timer.device)
    router = make_router(plan)
    found |= {"router_skew": router.skew, "visual_rows": _VISUAL / (_VISUAL + _TEXT)}
    checks = list(check(plan, router, timer.device))
    capacity = [row for rows in plan.rows for row in measure_capacity(plan, router, rows, timer)]
    products = list(measure_products(plan, router, plan.rows[-1], timer))
    if output is not None:
        results = {"checks": checks, "capacity": capacity, "products": products}
        write_json(output, {"environment": found, **results})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    for rows in (checks, capacity, products):
        print(f"\n{table(rows)}")


def make_router(plan: Plan) -> SyntheticRouter:
    """As uneven as ``plan`` says; the first layer's preferences are for text."""
    return SyntheticRouter.calibrated(8, plan.experts, plan.top_k, active=plan.active)


def check(plan: Plan, router: SyntheticRouter, device: torch.device) -> Iterator[Row]:
    """Compare every decision with the reference's, then a captured graph with launches.

    Raises:
        WrongResult: one is another.
    """
    rows = plan.rows[-1]
    for seed, config in enumerate(_CHECKED):
        prompt = Prompt.make(plan, router, rows, seed, device)
        settings = config.settings(device)
        poison(device)
        work = prepare(*prompt.inputs, settings)
        weigh(work)
        for launch in LAUNCHES:
            launch(work)
        _, scores, ids, weights, everyone, visual, groups = (t.cpu() for t in prompt.inputs)
        # Entropies are sums in another order: the weights are taken as they are.
        units = work.units.long().cpu()
        expected = limit(scores, ids, weights, everyone, visual, units, groups, config.settings())
        same = torch.equal(work.moved.cpu(), expected.expert_ids)
        name = f"{config.method}, seed {seed}"
        if not same or not torch.allclose(work.report.cpu(), expected.report, rtol=1e-6):
            raise WrongResult(f"MACS, {name}: decisions differ from the reference's")
        if device.type == "cuda" and not torch.equal(_replayed(prompt, settings), work.moved):
            raise WrongResult(f"MACS, {name}: a replayed graph differs")
        report = MacsReport.read(expected.report)
        yield {
            "check": name,
            "rows": rows,
            "rerouted": report.rerouted,
            "dropped": report.dropped_visual + report.dropped_text,
        }


def _replayed(prompt: Prompt, settings: Tensor) -> Tensor:
    """Ids out of a graph that was captured with nothing but zeros."""
    buffers = [torch.zeros_like(tensor) for tensor in (*prompt.inputs, settings)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = _macs(*buffers)
    for buffer, tensor in zip(buffers, (*prompt.inputs, settings), strict=True):
        buffer.copy_(tensor)
    graph.replay()
    torch.cuda.synchronize()
    return out.expert_ids


def _macs(*inputs: Tensor) -> Limited:
    """The whole operator."""
    return kernel_macs(prepare(*inputs))


def measure_capacity(plan: Plan, router: SyntheticRouter, rows: int, timer: Timer) -> Iterator[Row]:
    """The operator under each configuration, each launch alone, and Token Drop in torch."""
    device = timer.device
    prompts = [Prompt.make(plan, router, rows, seed, device) for seed in range(plan.prompts)]
    for name in plan.configs:
        config = CONFIGS[name]
        settings = config.settings(device)
        calls: list[Call] = [partial(_macs, *prompt.inputs, settings) for prompt in prompts]
        report = MacsReport.read(_macs(*prompts[0].inputs, settings).report)
        yield _timed(name, rows, timer, calls) | {
            "rerouted": report.rerouted,
            "dropped": report.dropped_visual + report.dropped_text,
        }
    drop = CONFIGS["Token Drop"]
    yield _timed(
        "Token Drop, torch operators",
        rows,
        timer,
        [partial(token_drop, drop, *prompt.inputs[1:6]) for prompt in prompts],
        graph=False,  # its settings come from the host
    )
    stages: dict[str, list[Call]] = {}
    for prompt in prompts:
        inputs = (*prompt.inputs, CONFIGS["MACS, capacity factor 0.5"].settings(device))
        work = prepare(*inputs)
        stages.setdefault("entropy", []).append(partial(prepare, *inputs))
        for launch in (weigh, *LAUNCHES):
            launch(work)
        for launch in (*LAUNCHES, weigh):  # which empties the queue
            if launch not in (admit, reroute):  # which add to what they find
                stages.setdefault(launch.__name__, []).append(partial(launch, work))
    for name, launches in stages.items():
        yield _timed(f"  {name}", rows, timer, launches)


def _timed(
    name: str, rows: int, timer: Timer, calls: Sequence[Call], *, graph: bool = True
) -> dict[str, object]:
    return {
        "what": name,
        "rows": rows,
        "eager_ms": timer.eager(calls),
        "graph_ms": timer.graph(calls) if graph else None,
    }


def measure_products(plan: Plan, router: SyntheticRouter, rows: int, timer: Timer) -> Iterator[Row]:
    """The experts' products: ragged without a limit, then ragged and padded under limits."""
    device = timer.device
    prompt = Prompt.make(plan, router, rows, 0, device)
    layers = [_weights(plan, device) for _ in range(2)]
    routing = prompt.routing
    most = int(routing.ids.flatten().bincount(minlength=plan.experts).max())
    vanilla = _product(prompt, routing.ids, routing.weights, layers, timer, None)
    yield {"routing": "no limit", "factor": None, "most_rows": most, "padded_to": None, **vanilla}
    for factor in plan.factors:
        for name, config in (
            ("Token Drop", MacsConfig(method="token_drop", capacity_factor=factor)),
            (
                "MACS, token limit",
                MacsConfig(capacity_factor=factor, token_limit=factor, keep_top1_text=False),
            ),
        ):
            found = limited_experts(*prompt.inputs, config.settings(device))
            capacity = guaranteed_tokens(config, rows, plan.top_k, plan.experts)
            yield {
                "routing": name,
                "factor": factor,
                "most_rows": int(MacsReport.read(found.report).raw_after),
                "padded_to": capacity,
                **_product(prompt, found.expert_ids, found.expert_weights, layers, timer, capacity),
            }


def _weights(plan: Plan, device: torch.device) -> tuple[Tensor, Tensor]:
    first = (plan.experts, plan.hidden, 2 * plan.width)
    second = (plan.experts, plan.width, plan.hidden)
    gate_up = torch.randn(first, dtype=plan.dtype, device=device) * plan.hidden**-0.5
    return gate_up, torch.randn(second, dtype=plan.dtype, device=device) * plan.width**-0.5


def _product(
    prompt: Prompt,
    ids: Tensor,
    weights: Tensor,
    layers: Sequence[tuple[Tensor, Tensor]],
    timer: Timer,
    capacity: int | None,
) -> dict[str, float | None]:
    routed = (prompt.hidden, ids, weights)
    ragged: list[Call] = [partial(grouped_experts, *routed, *layer) for layer in layers]
    row: dict[str, float | None] = {"ragged_ms": timer.graph(ragged) or timer.eager(ragged)}
    if capacity is None:
        return row | dict.fromkeys(("padded_ms", "ragged_over_padded", "matrices_ms", "error"))
    padded: list[Call] = [partial(padded_experts, *routed, *layer, capacity) for layer in layers]
    found, expected = (
        padded_experts(*routed, *layers[0], capacity),
        grouped_experts(*routed, *layers[0]),
    )
    error = float((found.float() - expected.float()).norm() / expected.float().norm())
    if not error < 2e-2:
        raise WrongResult(f"padded experts: relative error {error:.1e} to the ragged product")
    elapsed = timer.graph(padded) or timer.eager(padded)
    alone = [partial(_matrices, *layer, capacity) for layer in layers]
    return row | {
        "padded_ms": elapsed,
        "ragged_over_padded": (row["ragged_ms"] or 0) / elapsed,
        "matrices_ms": timer.graph(alone) or timer.eager(alone),
        "error": error,
    }


def _matrices(gate_up: Tensor, down: Tensor, capacity: int) -> None:
    """The two batched products of the padded form, without what is around them."""
    torch.bmm(gate_up.new_empty(len(gate_up), capacity, gate_up.shape[1]), gate_up)
    torch.bmm(down.new_empty(len(down), capacity, down.shape[1]), down)


if __name__ == "__main__":
    sys.exit(main())
