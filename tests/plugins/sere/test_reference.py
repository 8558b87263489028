"""The rule in torch operators: golden vectors, edge cases, and the rule spelled out."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings

from edgevlm.plugins.sere.reference import reroute

from .cases import Case, case, cases, spelled_out

# The Frobenius similarity of experts p with outputs ((7p + 3c + 2pc + 1) mod 11) - 5, c = 2t + h.
GOLDEN = torch.tensor(
    [
        [1, 0, 0.108773, 0.376645, 0.311316],
        [0, 1, 0.340996, 0.108773, 0.2],
        [0.108773, 0.340996, 1, 0, 0.30718],
        [0.376645, 0.108773, 0, 1, 0.210787],
        [0.311316, 0.2, 0.30718, 0.210787, 1],
    ]
)
IDS = [[0, 2, 4], [1, 3, 2], [0, 4, 3]]
KEPT_4 = [[0, 1, 4], [1, 0, 1], [0, 4, 0]]


def routed(case: Case) -> list[list[int]]:
    ids, active = reroute(*case.tensors)
    assert (ids.dtype, active.dtype) == (case.ids.dtype, torch.int64)
    return ids.tolist()


@pytest.mark.parametrize(
    ("threshold", "protected", "expected"),
    [
        (0.0, (), [[0, 1, 0], [1, 0, 1], [0, 0, 0]]),
        (0.32, (), KEPT_4),
        (0.35, (), [[0, 2, 4], [1, 0, 2], [0, 4, 0]]),
        (0.4, (), IDS),
        (0.0, (4,), KEPT_4),
    ],
)
def test_golden_vectors(threshold, protected, expected) -> None:
    assert routed(case(IDS, GOLDEN, 1, threshold, protected)) == expected


def test_active_experts_are_counted_before_and_after() -> None:
    assert reroute(*case(IDS, GOLDEN).tensors)[1].tolist() == [5, 2]


def test_ties_go_to_the_lowest_id() -> None:
    tied = torch.eye(3)
    tied[2, :2] = 0.7
    assert routed(case([[0, 2], [1, 2]], tied)) == [[0, 0], [1, 0]]


def test_equal_to_the_threshold_moves_and_below_stays() -> None:
    exact = torch.tensor([[1, 0.5], [0.5, 1]])
    assert routed(case([[0, 1]], exact, threshold=0.5)) == [[0, 0]]
    assert routed(case([[0, 1]], exact, threshold=0.50001)) == [[0, 1]]


@pytest.mark.parametrize("top_k", [-1, 0, 3, 4])
def test_no_primary_slot_or_nothing_else_changes_nothing(top_k: int) -> None:
    assert routed(case(IDS, GOLDEN, top_k)) == IDS


def test_one_token_keeps_its_first_experts_only() -> None:
    assert routed(case([[0, 1, 2, 3, 4]], GOLDEN, 2)) == [[0, 1, 1, 0, 0]]


def test_a_secondary_expert_that_another_token_has_first_stays() -> None:
    assert routed(case([[0, 1], [1, 0]], GOLDEN)) == [[0, 1], [1, 0]]


def test_nothing_is_near_enough_beyond_one() -> None:
    assert routed(case(IDS, GOLDEN, threshold=1.01)) == IDS


def test_nan_is_never_chosen_and_a_row_of_it_stays() -> None:
    holes = GOLDEN.clone()
    holes[4] = torch.nan
    holes[3, 0] = torch.nan
    assert routed(case(IDS, holes)) == [[0, 1, 4], [1, 1, 1], [0, 4, 1]]


def test_padded_rows_neither_vote_nor_change() -> None:
    padded = case([[0, 2], [1, 2], [1, 4]], GOLDEN, padded=(1, 2))
    assert routed(padded) == [[0, 0], [1, 2], [1, 4]]
    assert reroute(*padded.tensors)[1].tolist() == [2, 1]


def test_dropped_slots_stay_dropped() -> None:
    assert routed(case([[5, 2], [0, 5]], GOLDEN)) == [[5, 0], [0, 5]]


def test_32_bit_ids_stay_so() -> None:
    given = case(IDS, GOLDEN)
    narrow = dataclasses.replace(given, ids=given.ids.int())
    assert routed(narrow) == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]


@settings(deadline=None, max_examples=300)
@given(cases())
def test_is_the_rule_spelled_out(case: Case) -> None:
    ids, active = reroute(*case.tensors)
    assert (ids.tolist(), active.tolist()) == spelled_out(case)


@settings(deadline=None, max_examples=100)
@given(cases())
def test_first_slots_never_change_and_nothing_new_is_used(case: Case) -> None:
    ids, active = reroute(*case.tensors)
    first = max(case.top_k, 0)
    assert torch.equal(ids[:, :first], case.ids[:, :first])
    assert set(ids.flatten().tolist()) <= set(case.ids.flatten().tolist())
    assert active[1] <= active[0]
