"""What a build shows: its log and its progress."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from edgevlm.builder.tensorrt_log import BuildLog
from edgevlm.builder.tensorrt_progress import BuildMonitor, run_cancellable
from tests.fakes.tensorrt import FakeTensorRT
from tests.fakes.tensorrt.enums import Severity

TRT: Any = FakeTensorRT("tensorrt", "10.16.1", None)


def test_only_warnings_that_mean_something_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    log = BuildLog(TRT)
    with caplog.at_level(logging.DEBUG, "edgevlm.tensorrt"):
        log.sink.log(Severity.INFO, "a detail")
        log.sink.log(Severity.WARNING, "Make sure input kv_lengths has Int64 binding.")
        log.sink.log(Severity.WARNING, "Unused Input:\n kv_lengths")
    assert caplog.messages == ["TensorRT: Unused Input: kv_lengths"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "no reason given"),
        (["Error Code 4:\n bad", "later"], "Error Code 4: bad"),
        (["(cudaError 35: CUDA driver version is insufficient)", "the cause"], "the cause"),
        (["x", "not supported by a dedicated kernel"], "its attention has no fused kernel; use"),
        (["Error Code 2: OutOfMemory (no further information)"], "out of device memory; free"),
    ],
)
def test_the_reason_of_a_failure(messages: list[str], reason: str) -> None:
    log = BuildLog(TRT)
    for message in messages:
        log.sink.log(Severity.ERROR, message)
    assert log.reason().startswith(reason)


def test_nested_phases_are_one_fraction() -> None:
    seen: list[tuple[str, float]] = []
    monitor = BuildMonitor(TRT, lambda phase, fraction: seen.append((phase, round(fraction, 3))))
    sink = monitor.sink
    sink.phase_start("outer", None, 2)
    assert sink.step_complete("outer", 0)
    sink.phase_start("inner", "outer", 4)
    sink.step_complete("inner", 0)
    sink.phase_finish("inner")
    sink.phase_finish("outer")
    sink.step_complete("never started", 0)
    assert seen == [
        ("outer", 0.0),
        ("outer", 0.5),
        ("inner", 0.5),
        ("inner", 0.625),
        ("inner", 1.0),
        ("outer", 1.0),
    ]
    monitor.cancelled.set()
    assert not sink.step_complete("outer", 1)


def test_an_error_in_the_background_reaches_the_caller() -> None:
    def work() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        run_cancellable(work, threading.Event(), "it")
    assert run_cancellable(lambda: 5, threading.Event(), "it") == 5
