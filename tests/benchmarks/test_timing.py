"""Timing on a CPU."""

from __future__ import annotations

from time import sleep

import torch

from edgevlm.benchmarks.timing import Timer, extra_memory

CPU = torch.device("cpu")


def test_input_sets_take_turns_and_times_are_milliseconds() -> None:
    calls: list[int] = []

    def call(number: int) -> None:
        calls.append(number)
        sleep(0.002)

    timer = Timer(CPU, repeats=4, warm_up=1)
    assert 2 <= timer.eager([lambda: call(0), lambda: call(1)]) < 50
    assert calls == [0, 1, 0, 1, 0, 1]
    assert 2 <= timer.host([lambda: call(0)]) < 50


def test_a_cpu_has_neither_graphs_nor_a_memory_meter() -> None:
    assert Timer(CPU).graph([lambda: None]) is None
    assert extra_memory(lambda: None, CPU) is None
    assert Timer(CPU, repeats=1).copy_bandwidth() > 0
