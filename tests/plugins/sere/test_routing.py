"""Which form re-routes."""

from __future__ import annotations

import pytest
import torch

from edgevlm.core.triton_probe import triton_works
from edgevlm.plugins.sere import kernel, routing, sere_routing
from edgevlm.plugins.sere.reference import reroute

from .test_kernel import large


def test_operators_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "reroute", None)
    case = large(20, 4, 5, 1, 0.5)
    expected = reroute(*case.tensors)
    ids, active = sere_routing(*case.tensors)
    assert torch.equal(ids, expected[0]) and torch.equal(active, expected[1])
    totals = torch.tensor([5, 6])
    assert sere_routing(*case.tensors, totals)[1] is totals
    assert torch.equal(totals, expected[1] + torch.tensor([5, 6]))


def test_a_triton_that_does_not_work_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(kernel, "reroute", broken)
    triton_works.cache_clear()
    for _ in range(2):
        assert not triton_works(torch.device("cpu"), routing._trial, routing._INSTEAD)
    triton_works.cache_clear()
    (record,) = caplog.records
    assert "re-routed by slower torch operators: RuntimeError: no C compiler" in record.message
