"""Experts of a mixture of experts on a GPU: are the kernels right, and how long do they take.

Run ``python -m edgevlm.benchmarks.experts --output experts.json``. The layer has the shape of
Qwen3-30B-A3B's, random weights, and tokens from a synthetic router as uneven as a real one. Kernels
are compared with fp64 on the same inputs first, and CUDA graphs replayed for other routings than
they were captured with; a wrong one ends the run.

``graph_ms`` is per layer, several in one CUDA graph, ``eager_ms`` from an idle device to the end of
one call. Both are medians, over layers in turn, so that no cache holds the next weights. ``gb_s``
counts the weights of active experts, once; ``of_copy`` is its share of a large copy's rate in the
same run. Indented lines are steps alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..plugins.experts import moe_experts
from ..plugins.experts.kernels.combine import combine
from ..plugins.experts.kernels.down import down_product
from ..plugins.experts.kernels.experts import kernel_experts
from ..plugins.experts.kernels.gate_up import gate_up_product
from ..plugins.experts.kernels.plan import make_plan
from ..plugins.experts.kernels.tiling import choose_tiling
from .checks import WrongResult
from .command import command
from .report import Row, environment, table, write_json
from .synthetic_router import SyntheticRouter
from .timing import Call, Timer, poison

_MODULE = "edgevlm.benchmarks.experts"
_LARGEST_ERROR = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}
_DROPPED = 0.1  # of the slots, where results are compared
_MOST_BATCHED = 128  # rows; transformers' batched_mm copies weights per slot: 9.4 MB each here

Routed = tuple[Tensor, Tensor, Tensor]  # hidden [R,H], ids [R,k], weights [R,k]
Experts = Callable[..., Tensor]  # of these three


@dataclass(frozen=True)
class Plan:
    """The shape, and how many tokens there are."""

    experts: int
    top_k: int
    hidden: int
    width: int
    layers: int  # take turns, out of
    model_layers: int  # that the router is calibrated on
    active: float  # experts, at the largest decode batch
    decode: tuple[int, ...]
    prefill: tuple[int, ...]
    dtypes: tuple[torch.dtype, ...]  # the first is measured, too


FULL = Plan(
    experts=128,
    top_k=8,
    hidden=2048,
    width=768,
    layers=3,
    model_layers=48,
    active=93.0,
    decode=(1, 8, 32, 64, 128),
    prefill=(2048,),
    dtypes=(torch.bfloat16, torch.float16),
)
# Small enough for Triton's interpreter, which knows no bf16 matrix product.
TOY = Plan(6, 2, 32, 24, 1, 4, 5.0, (1, 6), (40,), (torch.float16, torch.float32))


@dataclass(frozen=True)
class Layer:
    """The experts of one layer: ``gate_up [N,H,2I]`` and ``down [N,I,H]``."""

    gate_up: Tensor
    down: Tensor

    @classmethod
    def random(cls, plan: Plan, dtype: torch.dtype, device: torch.device) -> Layer:
        first = (plan.experts, plan.hidden, 2 * plan.width)
        second = (plan.experts, plan.width, plan.hidden)
        gate_up = torch.randn(first, dtype=dtype, device=device) * plan.hidden**-0.5
        return cls(gate_up, torch.randn(second, dtype=dtype, device=device) * plan.width**-0.5)

    def ways(self, plan: Plan) -> dict[str, Experts]:
        """All there is to compare; the first is ours."""
        return {
            "kernels": partial(_with, kernel_experts, self),
            "torch loop": partial(_with, moe_experts, self),
            **_transformers(plan, self),
        }

    def stages(self, routed: Routed) -> dict[str, Call]:
        """Each kernel alone, on the results of those before it, and torch's grouped products."""
        hidden, ids, weights = routed
        experts, top_k = len(self.gate_up), ids.shape[1]
        tiling = choose_tiling(ids.numel(), experts, hidden.dtype)
        plan = make_plan(ids, experts, tiling.rows)
        inner = gate_up_product(hidden, self.gate_up, plan, top_k, tiling.gate_up)
        parts = down_product(inner, self.down, weights, plan, tiling.down)
        stages: dict[str, Call] = {
            "  plan": lambda: make_plan(ids, experts, tiling.rows),
            "  gate, up": lambda: gate_up_product(
                hidden, self.gate_up, plan, top_k, tiling.gate_up
            ),
            "  down": lambda: down_product(inner, self.down, weights, plan, tiling.down),
            "  combine": lambda: combine(parts, ids, experts),
        }
        if hidden.is_cuda:
            slot_ids, order = ids.flatten().sort()
            ends = torch.bincount(slot_ids, minlength=experts).cumsum(0).int()
            rows = hidden[order // top_k]
            stages["  torch._grouped_mm, gate, up"] = lambda: torch._grouped_mm(
                rows, self.gate_up, offs=ends
            )
            stages["  torch._grouped_mm, down"] = lambda: torch._grouped_mm(
                inner, self.down, offs=ends
            )
        return stages


def _with(operator: Experts, layer: Layer, *routed: Tensor) -> Tensor:
    return operator(*routed, layer.gate_up, layer.down)


def _transformers(plan: Plan, layer: Layer) -> dict[str, Experts]:
    """Its implementations on the same weights, which it wants transposed; empty without it."""
    try:
        from transformers.models.qwen3_vl_moe.configuration_qwen3_vl_moe import Qwen3VLMoeTextConfig
        from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import Qwen3VLMoeTextExperts
    except ImportError:
        return {}
    build: Any = Qwen3VLMoeTextExperts  # which is not typed
    gate_up, down = layer.gate_up.mT.contiguous(), layer.down.mT.contiguous()
    ways: dict[str, Experts] = {}
    for name in ("eager", "batched_mm", "grouped_mm"):
        config = Qwen3VLMoeTextConfig(
            num_experts=plan.experts,
            num_experts_per_tok=plan.top_k,
            hidden_size=plan.hidden,
            moe_intermediate_size=plan.width,
            hidden_act="silu",
        )
        config._experts_implementation = name
        with torch.device("meta"):
            module = build(config)
        module.gate_up_proj = torch.nn.Parameter(gate_up, requires_grad=False)
        module.down_proj = torch.nn.Parameter(down, requires_grad=False)
        ways[f"transformers, {name}"] = module
    return ways


def check(
    plan: Plan, router: SyntheticRouter, rows: int, dtype: torch.dtype, device: torch.device
) -> Row:
    """Compare the kernels with fp64, then a captured graph with launches.

    Raises:
        WrongResult: the relative error is too large, or the graph's result is another.
    """
    layer = Layer.random(plan, dtype, device)
    hidden, ids, weights = routed = _routed(plan, router, 0, rows, dtype, device)
    ids[::3, -1] = ids[::3, 0]  # as re-routing may leave them
    ids[torch.rand(ids.shape, device=device) < _DROPPED] = plan.experts
    poison(device)
    found = _with(kernel_experts, layer, *routed)
    exact = [t.double() for t in (layer.gate_up, layer.down)]
    expected = moe_experts(hidden.double(), ids, weights.double(), *exact)
    error = float((found.double() - expected).norm() / expected.norm())
    if not error < _LARGEST_ERROR[dtype]:
        raise WrongResult(f"experts, {rows} rows, {dtype}: relative error {error:.1e}")
    if device.type == "cuda" and not torch.equal(_replayed(layer, routed), found):
        raise WrongResult(f"experts, {rows} rows, {dtype}: a replayed graph differs")
    return {"check": "experts", "rows": rows, "dtype": str(dtype), "error": error}


def _replayed(layer: Layer, routed: Routed) -> Tensor:
    """The result of a graph that was captured while all rows used one expert."""
    buffers = [torch.zeros_like(tensor) for tensor in routed]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = _with(kernel_experts, layer, *buffers)
    for buffer, tensor in zip(buffers, routed, strict=True):
        buffer.copy_(tensor)
    graph.replay()
    torch.cuda.synchronize()
    return out


def measure(
    plan: Plan, layers: Sequence[Layer], router: SyntheticRouter, rows: int, timer: Timer
) -> Iterator[Row]:
    """Every way, and each stage of ours, over ``layers`` in turn."""
    dtype, copy = layers[0].down.dtype, timer.copy_bandwidth()
    routed = [
        _routed(plan, router, number, rows, dtype, timer.device) for number in range(len(layers))
    ]
    active = sum(len(torch.unique(ids)) for _, ids, _ in routed) / len(routed)
    expert_mb = 3 * plan.hidden * plan.width * dtype.itemsize / 1e6
    calls: dict[str, list[Call]] = {}
    for layer, inputs in zip(layers, routed, strict=True):
        ways = layer.ways(plan)
        expected = ways["kernels"](*inputs)
        for name, way in ways.items():
            if "batched" in name and rows > _MOST_BATCHED:
                continue
            error = float((way(*inputs) - expected).norm() / expected.norm())
            if not error < 2 * _LARGEST_ERROR[dtype]:
                raise WrongResult(f"{name}, {rows} rows: differs from the kernels by {error:.1e}")
            calls.setdefault(name, []).append(partial(way, *inputs))
        for name, call in layer.stages(inputs).items():
            calls.setdefault(name, []).append(call)
    for name, turns in calls.items():
        eager = timer.eager(turns)
        # A loop over experts asks the device which ones are active: it cannot be captured.
        graph = None if name.endswith(("loop", "eager")) else _in_one_graph(timer, turns)
        best = graph or eager
        whole = not name.startswith(" ")
        yield {
            "what": name,
            "rows": rows,
            "active": active,
            "eager_ms": eager,
            "graph_ms": graph,
            "gb_s": active * expert_mb / best if whole else None,
            "of_copy": active * expert_mb / best / copy if whole else None,
            "tflop_s": 6e-9 * rows * plan.top_k * plan.hidden * plan.width / best
            if whole
            else None,
        }


def _in_one_graph(timer: Timer, calls: Sequence[Call]) -> float | None:
    """Per call, all of them in one graph, as the layers of a model are."""

    def row() -> None:
        for call in calls:
            call()

    elapsed = timer.graph([row])
    return None if elapsed is None else elapsed / len(calls)


def _routed(
    plan: Plan,
    router: SyntheticRouter,
    layer: int,
    rows: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Routed:
    hidden = torch.randn(rows, plan.hidden, dtype=dtype, device=device)
    return (hidden, *router.route(layer, rows, rows, device, dtype))


def run(plan: Plan, timer: Timer, output: Path | None) -> None:
    """Check, measure, write and print."""
    found = environment(_MODULE, timer.device)
    if find_spec("transformers") is not None:
        found["transformers"] = version("transformers")
    if output is not None:
        write_json(output, {"environment": found})  # or fail now rather than at the end
    router = SyntheticRouter.calibrated(
        plan.model_layers, plan.experts, plan.top_k, plan.decode[-1], plan.active
    )
    counts = plan.decode + plan.prefill
    with torch.inference_mode():
        checks = [
            check(plan, router, rows, dtype, timer.device)
            for dtype in plan.dtypes
            for rows in counts
        ]
        layers = [Layer.random(plan, plan.dtypes[0], timer.device) for _ in range(plan.layers)]
        times = [row for rows in counts for row in measure(plan, layers, router, rows, timer)]
    found |= {"copy_gb_s": timer.copy_bandwidth(), "skew": router.skew}
    found |= {f"active_at_{rows}": router.active(rows) for rows in plan.decode}
    if output is not None:
        write_json(output, {"environment": found, "checks": checks, "times": times})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    for rows in (checks, times):
        print(f"\n{table(rows)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    return command(_MODULE, (FULL, TOY), run, argv, repeats=20)


if __name__ == "__main__":
    sys.exit(main())
