"""When the kernels are used: on CUDA, where Triton works, and said aloud where it does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from edgevlm.pruners import kernels
from edgevlm.pruners.kernels import norms


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    kernels._triton_works.cache_clear()
    yield
    kernels._triton_works.cache_clear()


def test_not_on_the_cpu() -> None:
    assert not kernels.usable(torch.zeros(2, 2))


def test_not_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    assert not kernels._triton_works(torch.device("cpu"))


def test_a_triton_that_fails_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(embeds: torch.Tensor) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(norms, "row_norms", fail)
    with caplog.at_level(logging.WARNING):
        assert not kernels._triton_works(torch.device("cpu"))
        assert not kernels._triton_works(torch.device("cpu"))
    assert len(caplog.records) == 1
    assert "Triton does not work on cpu" in caplog.text
    assert "RuntimeError: no C compiler" in caplog.text


def test_a_triton_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    assert kernels._triton_works(torch.device("cpu"))
