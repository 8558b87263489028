"""One MoE layer over several ranks, and the load of the fullest one, under limits and without.

    torchrun --nproc-per-node=2 -m edgevlm.benchmarks.expert_parallel --output ranks.json

The layer has the shape of Qwen3-VL-30B-A3B's, random weights, and the prompt of
``edgevlm.benchmarks.macs``. A time is that of the slowest rank, from the router's decision to the
rows being back on every rank, in a median of several. ``most_tokens`` is the largest number of
tokens (row and expert) any rank computes, ``mean_tokens`` what each would in perfect balance: the
same factor is not the same load, so compare methods at equal load.

With ``--device cpu --toy`` it runs anywhere, over gloo.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch
import torch.distributed as dist
from torch import Tensor

from ..core import exit_status
from ..models import Routing
from ..plugins.macs import MacsConfig, MacsReport, limited_routing
from ..plugins.parallel import ExpertParallel, Ranks, joined
from .macs import FULL, TOY, Plan, Prompt, make_router
from .report import Row, environment, table, write_json

FACTORS = (1.0, 1.5, 2.0)
ROWS = (2048, 16384)
METHODS: dict[str, Callable[[float], MacsConfig]] = {
    "Token Drop": lambda factor: MacsConfig(method="token_drop", capacity_factor=factor),
    "Expanded Drop": lambda factor: MacsConfig(method="expanded_drop", capacity_factor=factor),
    "MACS": lambda factor: MacsConfig(capacity_factor=factor),
    "MACS, token limit": lambda factor: MacsConfig(
        capacity_factor=factor, token_limit=factor, keep_top1_text=False
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run this rank's part of the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="torchrun -m edgevlm.benchmarks.expert_parallel")
    parser.add_argument("--output", type=Path, help="write everything as JSON to this file")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeats", type=int, default=30, help="measurements per median")
    parser.add_argument("--toy", action="store_true", help="tiny shapes, to see that it runs")
    arguments = parser.parse_args(argv)
    return exit_status(lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> None:
    with joined(arguments.device) as ranks:
        plan = TOY if arguments.toy else FULL
        sizes = plan.rows if arguments.toy else ROWS
        rows = [row for size in sizes for row in measure(plan, size, ranks, arguments.repeats)]
        if ranks.rank == 0:
            _report(ranks, rows, arguments.output)


def measure(plan: Plan, rows: int, ranks: Ranks, repeats: int) -> Iterator[Row]:
    """No limit, then each method at each factor."""
    layer = _Layer(plan, rows, ranks)
    yield layer.measured("no limit", None, None, repeats)
    for name, method in METHODS.items():
        for factor in FACTORS:
            config = replace(method(factor), devices=ranks.size, device=ranks.rank)
            yield layer.measured(name, factor, config, repeats)


class _Layer:
    """One rank's part of the layer, and the prompt."""

    def __init__(self, plan: Plan, rows: int, ranks: Ranks) -> None:
        self._rows, self._ranks = rows, ranks
        self._parallel = ExpertParallel(plan.experts)
        self._prompt = Prompt.make(plan, make_router(plan), rows, 0, ranks.device)
        self._mean = rows * plan.top_k / ranks.size
        local = self._parallel.placement.sizes[ranks.rank]
        torch.manual_seed(ranks.rank)
        first, second = (local, plan.hidden, 2 * plan.width), (local, plan.width, plan.hidden)
        self._gate_up, self._down = (
            torch.randn(shape, dtype=plan.dtype, device=ranks.device) * shape[1] ** -0.5
            for shape in (first, second)
        )

    def measured(
        self, name: str, factor: float | None, config: MacsConfig | None, repeats: int
    ) -> Row:
        """The row of one method."""
        times, reports, loads = [], [], []

        def limit(hidden: Tensor, own: Routing, place: slice) -> Routing:
            if config is not None:
                everyone = torch.ones(len(hidden), dtype=torch.bool, device=hidden.device)
                own, report = limited_routing(
                    config, hidden, own, everyone, self._prompt.visual[place], self._prompt.groups
                )
                reports.append(report)
            loads.append(own.ids)
            return own

        for _ in range(repeats + 2):
            self._wait()
            begin = perf_counter()
            self._parallel.layer(
                self._prompt.hidden, self._prompt.routing, self._gate_up, self._down, limit
            )
            self._wait(between_ranks=False)
            times.append((perf_counter() - begin) * 1e3)
        slowest = torch.tensor(times[2:], device=self._ranks.device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        tokens = self._tokens(loads[-1])
        report = MacsReport.read(reports[-1]) if reports else MacsReport()
        counts = torch.tensor([report.rerouted, report.dropped_visual, report.dropped_text])
        rerouted, visual, text = self._sum(counts).tolist()
        return {
            "rows": self._rows,
            "method": name,
            "factor": factor,
            "ms": float(slowest.median()),
            "most_tokens": int(tokens.max()),
            "mean_tokens": self._mean,
            "rerouted": rerouted,
            "dropped_visual": visual,
            "dropped_text": text,
        }

    def _tokens(self, ids: Tensor) -> Tensor:
        """Tokens each rank computes, ``[P]``."""
        placement = self._parallel.placement
        owners = placement.owners(ids.device)
        kept = ids[ids < placement.experts]
        return self._sum(owners[kept].bincount(minlength=placement.ranks).cpu())

    def _sum(self, values: Tensor) -> Tensor:
        total = values.to(self._ranks.device)
        dist.all_reduce(total)
        return total.cpu()

    def _wait(self, *, between_ranks: bool = True) -> None:
        if self._ranks.device.type == "cuda":
            torch.cuda.synchronize()
        if between_ranks:
            dist.barrier()


def _report(ranks: Ranks, rows: list[Row], output: Path | None) -> None:
    found = environment("edgevlm.benchmarks.expert_parallel", ranks.device)
    found |= {"ranks": ranks.size, "backend": dist.get_backend()}
    if output is not None:
        write_json(output, {"environment": found, "layer": rows})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    sys.exit(main())
