"""Intervals: their centre, their width, and that they are the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.accuracy.reports.bootstrap import resample

scores = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def column(values: list[float]) -> np.ndarray:
    return np.array(values, float)[:, None]


@given(scores)
@settings(max_examples=30)
def test_the_value_is_the_mean_and_lies_in_its_interval(values: list[float]) -> None:
    found = resample(column(values), "t").interval(0)
    assert found is not None
    assert found.value == pytest.approx(np.mean(values))
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    if len(set(values)) == 1:
        assert found.low == pytest.approx(found.high)


def test_the_same_questions_give_the_same_interval_and_other_tasks_another() -> None:
    values = column([0, 1, 1, 0, 1, 1, 1, 0])
    first, again = (resample(values, "t").interval(0) for _ in range(2))
    assert first == again
    assert resample(values, "other").interval(0) != first


def test_the_width_is_that_of_the_normal_approximation() -> None:
    values = column([1.0] * 400 + [0.0] * 100)
    found = resample(values, "t").interval(0)
    assert found is not None
    half = 1.96 * (0.8 * 0.2 / 500) ** 0.5
    assert found.low == pytest.approx(0.8 - half, abs=0.004)
    assert found.high == pytest.approx(0.8 + half, abs=0.004)


def test_a_difference_is_of_pairs() -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, 300).astype(float)
    worse = base.copy()
    worse[:9] = 0.0  # hardly differs from it, however uncertain both are
    both = resample(np.stack([base, worse, worse - base], axis=1), "t")
    one, other, difference = (both.interval(place) for place in range(3))
    assert one and other and difference
    assert difference.value == pytest.approx(other.value - one.value)
    assert difference.high - difference.low < 0.4 * (one.high - one.low)


def test_missing_scores_count_nowhere_and_tasks_add_up() -> None:
    first = resample(np.array([[1.0], [np.nan], [0.0]]), "a")
    second = resample(np.array([[1.0], [1.0]]), "b")
    alone, together = first.interval(0), (first + second).interval(0)
    assert alone and together
    assert alone.value == 0.5 and together.value == 0.75
    assert resample(np.array([[np.nan]]), "a").interval(0) is None
