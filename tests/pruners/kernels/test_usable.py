"""When the kernels are used: on CUDA, where Triton works, and said aloud where it does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from edgevlm.core.triton_probe import triton_works
from edgevlm.pruners import kernels
from edgevlm.pruners.kernels import norms

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    triton_works.cache_clear()
    yield
    triton_works.cache_clear()


def test_not_on_the_cpu() -> None:
    assert not kernels.usable(torch.zeros(2, 2))


def test_a_triton_that_fails_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(embeds: torch.Tensor) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(norms, "row_norms", fail)
    with caplog.at_level(logging.WARNING):
        assert not triton_works(CPU, kernels._trial, kernels._INSTEAD)
        assert not triton_works(CPU, kernels._trial, kernels._INSTEAD)
    (record,) = caplog.records
    assert "Triton does not work on cpu, visual pruning uses slower" in record.message
    assert "RuntimeError: no C compiler" in record.message


def test_a_triton_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    assert triton_works(CPU, kernels._trial, kernels._INSTEAD)
