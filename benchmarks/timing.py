"""Timing calls on a device: medians, input sets in turn, with and without a CUDA graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch

Call = Callable[[], object]


@dataclass(frozen=True)
class Timer:
    """Measures calls that differ only in their inputs, so that no cache holds the next input.

    All results are medians in milliseconds over ``repeats`` measurements.
    """

    device: torch.device
    repeats: int = 50
    warm_up: int = 3

    def eager(self, calls: Sequence[Call]) -> float:
        """From an idle device to the end of one call: the host's launches count where they lag."""
        for call in list(calls) * self.warm_up:
            call()
        times = [self._once(calls[index % len(calls)]) for index in range(self.repeats)]
        return median(times)

    def host(self, calls: Sequence[Call]) -> float:
        """What one call keeps the host busy for, the device idle at its beginning."""
        times = []
        for index in range(self.repeats):
            self.synchronize()
            begin = perf_counter()
            calls[index % len(calls)]()
            times.append((perf_counter() - begin) * 1e3)
        self.synchronize()
        return median(times)

    def graph(self, calls: Sequence[Call]) -> float | None:
        """Per call, each replayed from its own CUDA graph, all in a row.

        ``None`` on a CPU, and where a call cannot be captured, which is said on stderr.
        """
        if self.device.type != "cuda":
            return None
        try:
            graphs = [_captured(call, self.warm_up) for call in calls]
        except RuntimeError as error:
            print(f"no CUDA graph: {str(error).splitlines()[0]}", file=sys.stderr)
            return None

        def replay() -> None:
            for graph in graphs:
                graph.replay()

        replay()
        return median(self._once(replay) for _ in range(self.repeats)) / len(graphs)

    def copy_bandwidth(self) -> float:
        """GB/s read and written by a large copy on the device: the ceiling of all that moves."""
        size = 2**30 if self.device.type == "cuda" else 2**20
        source, target = torch.ones(2, size, dtype=torch.uint8, device=self.device)
        return 2 * size / self.eager([lambda: target.copy_(source)]) / 1e6

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _once(self, call: Call) -> float:
        if self.device.type != "cuda":
            begin = perf_counter()
            call()
            return (perf_counter() - begin) * 1e3
        event: Any = torch.cuda.Event  # whose constructor torch leaves untyped
        begun, ended = event(enable_timing=True), event(enable_timing=True)
        torch.cuda.synchronize(self.device)
        begun.record()
        call()
        ended.record()
        torch.cuda.synchronize(self.device)
        return float(begun.elapsed_time(ended))


def _captured(call: Call, warm_up: int) -> torch.cuda.CUDAGraph:
    """``call`` as a CUDA graph, after running it outside one."""
    for _ in range(warm_up):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def extra_memory(call: Call, device: torch.device) -> float | None:
    """Peak device memory in MB that a warm ``call`` allocates, result included."""
    if device.type != "cuda":
        return None
    call()
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = call()
    torch.cuda.synchronize(device)
    del result
    return (torch.cuda.max_memory_allocated(device) - before) / 1e6


def poison(device: torch.device) -> None:
    """Fill the allocator's free memory, so that what a kernel forgets to write is not right."""
    if device.type != "cuda":
        return
    torch.cuda.empty_cache()
    large = [torch.empty(1 << 30, dtype=torch.uint8, device=device)]
    small = [torch.empty(1 << 19, dtype=torch.uint8, device=device) for _ in range(64)]
    for block in large + small:
        block.fill_(0x7F)
    torch.cuda.synchronize(device)
