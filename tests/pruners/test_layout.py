"""Where tokens lie before and after pruning."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.pruners.layout import Layout

from .helpers import make_io
from .strategies import layouts


def test_places_by_hand() -> None:
    layout = Layout.of(make_io(20, [(3, 8), (8, 9), (12, 18)]), (2, 1, 4))
    assert [tuple(place) for place in layout.places] == [
        (3, 5, 2, 3, 0),
        (8, 1, 1, 3, 2),
        (12, 6, 4, 6, 3),
    ]
    assert [(span.start, span.end, span.media) for span in layout.closed_spans] == [
        (3, 5, 0),
        (5, 6, 1),
        (9, 13, 2),
    ]
    assert (layout.visual_tokens, layout.text_tokens, layout.kept_tokens) == (12, 8, 7)
    assert layout.pruned_length == 15
    kept = torch.tensor([4, 6, 8, 12, 13, 14, 17])
    rows = layout.surviving_rows(kept).tolist()
    assert rows == [0, 1, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 17, 18, 19]


@given(layouts(min_spans=0), st.data())
def test_surviving_rows_are_the_kept_ones_and_all_text(layout, data) -> None:
    length, spans = layout
    stay = [sorted(data.draw(st.sets(st.integers(s, e - 1), min_size=1))) for s, e in spans]
    kept = [row for rows in stay for row in rows]
    text = [row for row in range(length) if not any(s <= row < e for s, e in spans)]
    made = Layout.of(make_io(length, spans), tuple(map(len, stay)))
    rows = made.surviving_rows(torch.tensor(kept, dtype=torch.int64))
    assert rows.tolist() == sorted(kept + text)
    assert len(rows) == made.pruned_length
