"""The language model in torch: is it right, and how long do prefill and decoding take.

Run ``python -m edgevlm.benchmarks.llm --output llm.json``. Weights are random, of a published
model's shape. Checks come first: plain, fused and captured, all against fp32 on the same inputs.
Times are medians, warm, from an idle device; ``speed_up`` is against the whole prompt the same way;
``of_weights_bound`` is what reading all weights once at the rate of a large copy would take, over
the time of a step in a row of steps; ``with_sampling_ms`` is from token to token on the host. A
part that fails is named, and the others go on.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ..core import PipelineIO, exit_status
from ..runtime.engines.torch_inputs import prompt_bucket
from ..runtime.engines.torch_llm import TorchLLMEngine
from . import llm_parts, llm_transformers
from .device import open_device
from .llm_checks import check
from .llm_shapes import SHAPES, LLMShape, make_engine
from .llm_times import measure_decode, measure_prefill
from .report import Row, environment, table, write_json
from .timing import Timer

_PART_LAYERS = 8


@dataclass
class Benchmark:
    """One run: the subject, and what has been found so far."""

    shape: LLMShape
    dtype: torch.dtype
    timer: Timer
    environment: dict[str, Any]
    output: Path | None
    results: dict[str, list[Row]] = field(default_factory=dict)
    failures: list[Row] = field(default_factory=list)

    def part(self, name: str, rows: Callable[[], Iterable[Row]]) -> None:
        """Collect ``rows`` under ``name``, whatever happens, and write all there is."""
        begin = perf_counter()
        found = self.results.setdefault(name, [])
        try:
            found.extend(rows())
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.failures.append({"part": name, "error": reason})
            print(f"{name} failed: {reason}", file=sys.stderr)
        gc.collect()
        if self.timer.device.type == "cuda":
            torch.cuda.empty_cache()
        took = perf_counter() - begin
        print(f"{name}: {took:.1f} s", file=sys.stderr, flush=True)
        self.save()

    def save(self) -> None:
        if self.output is not None:
            content = {"environment": self.environment, **self.results, "failures": self.failures}
            write_json(self.output, content)

    def engine(self, **choices: Any) -> TorchLLMEngine:
        shape = self.shape
        return make_engine(shape.config, shape.limits, self.dtype, self.timer.device, **choices)

    def prefill(self, name: str, **choices: Any) -> Iterable[Row]:
        prefill = partial(self.engine(**choices).prefill, 0)
        yield from measure_prefill(name, prefill, self.shape, self.dtype, self.timer)

    def graphs(self) -> Iterable[Row]:
        """Prefill and decoding by one engine."""
        engine = self.engine(fused=True)

        def prefill(io: PipelineIO) -> object:
            return engine.prefill(0, io)

        yield from measure_prefill("graphs", prefill, self.shape, self.dtype, self.timer)
        bandwidth = self.environment["copy_gb_s"]
        yield from measure_decode("graphs", engine, self.shape, self.timer, bandwidth)

    def transformers(self) -> Iterable[Row]:
        prefill = llm_transformers.make_prefill(self.shape.config, self.dtype, self.timer.device)
        if prefill is not None:
            yield from measure_prefill("transformers", prefill, self.shape, self.dtype, self.timer)

    def parts(self, measure: Callable[[Any, Timer], Iterable[Row]]) -> Iterable[Row]:
        layers = min(_PART_LAYERS, self.shape.config.num_layers)
        config = replace(self.shape.config, num_layers=layers)
        rows = prompt_bucket(self.shape.visual_tokens)
        network = llm_parts.make_network(config, self.timer, self.dtype, rows)
        yield from measure(network, self.timer)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m edgevlm.benchmarks.llm")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="4b")
    parser.add_argument("--output", type=Path, help="write everything as JSON to this file")
    parser.add_argument("--device", default="cuda", help="torch device (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=20, help="measurements per median")
    parser.add_argument("--tune", action="store_true", help="also time other kernel tiles")
    arguments = parser.parse_args(argv)
    return exit_status(lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    device = open_device(arguments.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    timer = Timer(device, arguments.repeats, min(3, arguments.repeats))
    found = environment("edgevlm.benchmarks.llm", device) | {"shape": arguments.shape}
    benchmark = Benchmark(SHAPES[arguments.shape], dtype, timer, found, arguments.output)
    run(benchmark, tune=arguments.tune)
    return 1 if benchmark.failures else 0


def run(benchmark: Benchmark, *, tune: bool) -> None:
    """Check, measure, write and print."""
    timer, found = benchmark.timer, benchmark.environment
    benchmark.save()  # or fail now rather than at the end
    found["copy_gb_s"] = timer.copy_bandwidth()
    benchmark.part("checks", lambda: check(benchmark.shape, benchmark.dtype, timer.device))
    benchmark.part("graphs", benchmark.graphs)
    benchmark.part("fused", lambda: benchmark.prefill("fused", fused=True, max_graphs=0))
    benchmark.part("plain", lambda: benchmark.prefill("plain", fused=False))
    benchmark.part("transformers", benchmark.transformers)
    for tokens in (benchmark.shape.visual_tokens, benchmark.shape.visual_tokens // 2):
        by_part = partial(llm_parts.measure_prefill_parts, rows=prompt_bucket(tokens))
        benchmark.part("parts", partial(benchmark.parts, by_part))
    benchmark.part("matrices", lambda: benchmark.parts(llm_parts.measure_matrices))
    if tune:
        benchmark.part("tuning", lambda: benchmark.parts(llm_parts.tune_vector))
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    results = benchmark.results
    times = [*results["plain"], *results["transformers"], *results["fused"], *results["graphs"]]
    for name in ("tuning", "matrices", "parts", "checks"):
        if results.get(name):
            print(f"\n{table(results[name])}")
    for failure in benchmark.failures:
        print(f"\n{failure['part']} failed: {failure['error']}")
    if times:
        columns = ("what", "tokens", "ms", "speed_up", "of_weights_bound", "tokens_per_s")
        print(f"\n{table([{name: row.get(name) for name in columns} for row in times])}")


if __name__ == "__main__":
    sys.exit(main())
