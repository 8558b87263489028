"""Trying Triton out: once, and said aloud where it fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from edgevlm.core import triton_probe
from edgevlm.core.triton_probe import triton_works

CPU, META = torch.device("cpu"), torch.device("meta")
tried: list[torch.device] = []


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    tried.clear()
    triton_works.cache_clear()
    yield
    triton_works.cache_clear()


def works(device: torch.device) -> None:
    tried.append(device)


def fails(device: torch.device) -> None:
    tried.append(device)
    raise RuntimeError("no C compiler")


def test_not_without_triton(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(triton_probe, "find_spec", lambda name: None)
    assert not triton_works(CPU, works, "all is slower")
    assert not tried and not caplog.records


def test_tried_once_on_each_device() -> None:
    for device in (CPU, META, CPU, META):
        assert triton_works(device, works, "all is slower")
    assert tried == [CPU, META]


def test_a_failure_is_reported_once_and_concerns_its_trial_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert not triton_works(CPU, fails, "all is slower")
    assert triton_works(CPU, works, "all is slower")
    (record,) = caplog.records
    assert record.name == __name__
    expected = "Triton does not work on cpu, all is slower: RuntimeError: no C compiler"
    assert record.getMessage() == expected


def test_a_failure_that_shows_only_when_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: torch.device) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    assert not triton_works(CPU, works, "all is slower")
