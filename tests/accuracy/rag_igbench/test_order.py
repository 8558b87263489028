"""Edit distance and Kendall scores, against values worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.accuracy.rag_igbench.errors import Undefined
from edgevlm.accuracy.rag_igbench.order import (
    edit_distance,
    kendall_paper,
    kendall_raw,
    with_difficulty,
)

IMAGES = st.lists(st.integers(1, 6), max_size=7)


def test_the_worked_example() -> None:
    generated, reference = [3, 1, 2], [1, 2, 4]
    assert edit_distance(generated, reference) == pytest.approx(1 / 3)
    assert kendall_raw(generated, reference) == pytest.approx(1 / 3)
    assert with_difficulty(1 / 3, 10, 3) == pytest.approx(0.3)
    assert kendall_paper(generated, reference) == 1.0


@pytest.mark.parametrize(
    ("generated", "reference", "distance"),
    [
        ([1, 2, 3], [1, 2, 3], 1.0),
        ([], [1, 2], 0.0),
        ([1, 2], [], 0.0),
        ([1, 2], [1, 2, 3, 4], 0.5),  # two to insert
        ([2, 1], [1, 2], 0.0),  # both to replace
        ([1, 1, 2], [1, 2], 2 / 3),  # the repetition to delete
        ([1, 9, 3], [1, 2, 3], 2 / 3),
    ],
)
def test_edit_distance(generated: list[int], reference: list[int], distance: float) -> None:
    assert edit_distance(generated, reference) == pytest.approx(distance)


@pytest.mark.parametrize(
    ("generated", "reference", "code", "paper"),
    [
        ([], [1, 2], 0.0, 0.0),
        ([], [1], 0.0, 0.0),
        ([1], [1], 1.0, 1.0),
        ([2], [1], 0.0, 0.0),
        ([1, 2, 3], [2], 1 / 3, 1 / 3),
        ([2], [1, 2, 3, 4], 0.25, 0.25),
        ([2, 1], [], 0.0, 0.0),
        ([2, 5], [2, 7], 0.0, 0.5),  # one in common: no pair to be in order
        ([1, 2, 3], [1, 2, 3], 1.0, 1.0),
        ([3, 2, 1], [1, 2, 3], 0.0, 0.0),
        ([1, 3, 2], [1, 2, 3], 2 / 3, 2 / 3),
        ([1, 2, 8, 9], [1, 2], 1 / 6, 1.0),  # strangers count in the code only
        # A repetition: pairs (1,1), (1,2), (1,2) in the code, (1,2) in the paper.
        ([1, 1, 2], [1, 2], 2 / 3, 1.0),
        # The reference has 1 at places 0 and 2; the code looks at the last, the paper's form at the
        # first.
        ([1, 2], [1, 2, 1], 0.0, 1.0),
    ],
)
def test_kendall(generated: list[int], reference: list[int], code: float, paper: float) -> None:
    assert kendall_raw(generated, reference) == pytest.approx(code)
    assert kendall_paper(generated, reference) == pytest.approx(paper)


def test_where_nothing_is_defined() -> None:
    with pytest.raises(Undefined, match="has an image"):
        edit_distance([], [])
    with pytest.raises(Undefined, match="has an image"):
        kendall_paper([], [])
    for generated in ([], [1]):
        with pytest.raises(Undefined, match="reference has no image"):
            kendall_raw(generated, [])
    with pytest.raises(Undefined, match="no candidate"):
        with_difficulty(1.0, 0, 0)


@pytest.mark.parametrize(
    ("candidates", "wanted", "factor"), [(4, 4, 2 / 3), (4, 2, 5 / 6), (100, 1, 1.495 / 1.5)]
)
def test_difficulty(candidates: int, wanted: int, factor: float) -> None:
    assert with_difficulty(1.0, candidates, wanted) == pytest.approx(factor)


@given(IMAGES, IMAGES)
def test_everything_lies_between_0_and_1(generated: list[int], reference: list[int]) -> None:
    for metric in (edit_distance, kendall_paper, kendall_raw):
        try:
            value = metric(generated, reference)
        except Undefined:
            continue
        assert 0 <= value <= 1


@given(IMAGES, IMAGES)
def test_edit_distance_is_symmetric(generated: list[int], reference: list[int]) -> None:
    if generated or reference:
        assert edit_distance(generated, reference) == edit_distance(reference, generated)


@given(st.lists(st.integers(1, 50), min_size=1, unique=True))
def test_the_reference_itself_is_perfect(images: list[int]) -> None:
    assert edit_distance(images, images) == 1
    assert kendall_raw(images, images) == pytest.approx(1)
    assert kendall_paper(images, images) == 1
