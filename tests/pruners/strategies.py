"""Hypothesis strategies shared by the tests of this folder."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def layouts(draw: st.DrawFn, *, min_spans: int = 1) -> tuple[int, list[tuple[int, int]]]:
    """A prompt length and visual spans in it, adjacent ones and one-token ones included."""
    spans, row = [], 0
    for _ in range(draw(st.integers(min_spans, 3))):
        row += draw(st.integers(0, 4))
        size = draw(st.integers(1, 20))
        spans.append((row, row + size))
        row += size
    return row + draw(st.integers(1, 4)), spans
