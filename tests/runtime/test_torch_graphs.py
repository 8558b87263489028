"""Which steps are captured, kept, dropped; with a recorder that needs no GPU."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor

from edgevlm.runtime.engines.torch_graphs import GraphCache, Step
from edgevlm.runtime.engines.torch_inputs import batch_bucket, prompt_bucket


class Recorder:
    """Replays what a step gave when it was captured; fails while ``memory`` is false."""

    def __init__(self) -> None:
        self.captured = 0
        self.memory = True

    def __call__(self, step: Step) -> Step:
        if not self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")
        self.captured += 1
        result = step()
        return lambda: -result


def one() -> Tensor:
    return torch.ones(1)


def test_a_step_is_captured_when_it_comes_again() -> None:
    recorder = Recorder()
    graphs = GraphCache(2, recorder)
    assert [float(graphs.run("a", one)) for _ in range(4)] == [1, -1, -1, -1]
    assert recorder.captured == 1


def test_the_longest_unused_graph_is_dropped() -> None:
    recorder = Recorder()
    graphs = GraphCache(2, recorder)
    for key in "aabbaccc":
        graphs.run(key, one)
    assert ["a" in graphs, "b" in graphs, "c" in graphs] == [True, False, True]
    assert float(graphs.run("b", one)) == -1  # known already: captured at once
    assert recorder.captured == 4


def test_without_memory_steps_run_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    graphs = GraphCache(4, recorder)
    for _ in range(2):
        graphs.run("a", one)
    recorder.memory = False
    with caplog.at_level(logging.WARNING):
        assert [float(graphs.run(key, one)) for key in "bbbcc"] == [1] * 5
    assert float(graphs.run("a", one)) == -1
    assert [record.message.count("out of memory") for record in caplog.records] == [1]


def test_no_graphs_at_all() -> None:
    graphs = GraphCache(0, Recorder())
    assert [float(graphs.run("a", one)) for _ in range(3)] == [1] * 3


@pytest.mark.parametrize(
    ("rows", "bucket"), [(1, 64), (64, 64), (65, 128), (512, 512), (513, 640), (1995, 2048)]
)
def test_prompt_buckets(rows: int, bucket: int) -> None:
    assert prompt_bucket(rows) == bucket


def test_batch_buckets() -> None:
    assert [batch_bucket(rows, 13) for rows in (1, 7, 8, 9, 13)] == [1, 7, 8, 13, 13]
    assert batch_bucket(9, 64) == 16
