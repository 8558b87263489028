"""The kernel under Triton's interpreter against the reference."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings

from edgevlm.plugins.sere import kernel
from edgevlm.plugins.sere.reference import reroute

from .cases import Case, cases


def assert_same(case: Case) -> None:
    expected = reroute(*case.tensors)
    found = kernel.reroute(*case.tensors)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    totals = torch.tensor([1000, 2000])
    ids, returned = kernel.reroute(*case.tensors, totals)
    assert torch.equal(ids, expected[0])
    assert returned is totals
    assert torch.equal(totals, expected[1] + torch.tensor([1000, 2000]))


def large(experts: int, slots: int, rows: int, top_k: int, threshold: float) -> Case:
    generator = torch.Generator().manual_seed(experts + rows)
    similarity = (torch.rand(experts, experts, generator=generator) * 16).round() / 16
    similarity[1] = torch.nan
    return Case(
        torch.rand(rows, experts, generator=generator).argsort(dim=1)[:, :slots].contiguous(),
        similarity,
        torch.rand(experts, generator=generator) < 0.1,
        torch.rand(rows, generator=generator) < 0.9,
        top_k,
        threshold,
    )


@settings(deadline=None, max_examples=15)
@given(cases())
def test_is_the_reference(case: Case) -> None:
    assert_same(case)


@pytest.mark.parametrize(
    ("experts", "slots", "rows", "top_k", "threshold"),
    [
        (128, 8, 1, 2, 0.5),
        (128, 8, 64, 2, 0.9),
        (128, 8, 65, 3, 0.0),
        (60, 4, 33, 1, 0.5),
        (16, 3, 300, 1, 0.9),  # more rows than a program reads at a time, odd slots
        (512, 10, 12, 2, 0.95),  # more similarities than it holds
        (129, 1, 5, 1, 0.5),
    ],
)
def test_shapes(experts, slots, rows, top_k, threshold) -> None:
    assert_same(large(experts, slots, rows, top_k, threshold))


def test_32_bit_ids() -> None:
    case = large(40, 4, 9, 1, 0.5)
    assert_same(dataclasses.replace(case, ids=case.ids.int()))
