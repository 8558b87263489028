"""The budget and the position lists a pruner works from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.pruners import PruneRequest, VisualPrunerConfig

from .helpers import make_io
from .strategies import layouts


def request(layout: tuple[int, list[tuple[int, int]]]) -> PruneRequest:
    return PruneRequest(make_io(*layout), VisualPrunerConfig(reduction_ratio=0.5))


@pytest.mark.parametrize(
    ("tokens", "ratio", "kept"),
    [
        (10, 0.7, 3),  # 10 * (1 - 0.7) is just above 3 in float64
        (10, 0.9, 1),  # a ratio rounded to float32 would keep 2
        (8, 0.25, 6),
        (9, 0.25, 7),
        (1, 0.99, 1),
        (3, 1e-12, 3),
        (3, 1 - 1e-12, 1),
        (1995, 0.25, 1497),
    ],
)
def test_quota(tokens: int, ratio: float, kept: int) -> None:
    assert VisualPrunerConfig(reduction_ratio=ratio).quota(tokens) == kept
    assert VisualPrunerConfig().quota(tokens, ratio) == kept


@given(st.integers(1, 5000), st.integers(1, 999))
def test_quota_is_the_exact_ceiling_of_a_decimal_ratio(tokens: int, thousandths: int) -> None:
    exact = -(-tokens * (1000 - thousandths) // 1000)
    assert VisualPrunerConfig().quota(tokens, thousandths / 1000) == exact


@given(layouts(min_spans=0))
def test_positions_partition_the_prompt(layout) -> None:
    length, spans = layout
    visual = [row for start, end in spans for row in range(start, end)]
    made = request(layout)
    assert made.visual_positions.tolist() == visual
    assert made.text_positions.tolist() == sorted(set(range(length)) - set(visual))
    assert made.quotas == tuple(made.config.quota(end - start) for start, end in spans)
    assert made.ratios == (0.5,) * len(spans) and made.ratio == 0.5 and made.adapted == ()
