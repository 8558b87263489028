"""Compaction: everything with a row per token is cut by the same rows, and nothing else changes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners.compaction import compact
from edgevlm.pruners.layout import Layout
from edgevlm.pruners.selection import MergeWeights

from .helpers import make_io
from .strategies import layouts


@settings(max_examples=100, deadline=None)
@given(layouts(), st.booleans(), st.sampled_from([0, 3]), st.data())
def test_one_index_vector_cuts_everything(layout, importance, planes, data) -> None:
    length, spans = layout
    io = make_io(length, spans, importance=importance, planes=planes)
    stay = [sorted(data.draw(st.sets(st.integers(s, e - 1), min_size=1))) for s, e in spans]
    visual = [row for rows in stay for row in rows]
    text = [row for row in range(length) if not any(s <= row < e for s, e in spans)]
    rows = torch.tensor(sorted(visual + text))

    out = compact(io, torch.tensor(visual), Layout.of(io, tuple(map(len, stay))))

    assert torch.equal(out.token_ids, rows + 100)
    assert torch.equal(out.embeds, io.embeds[rows])
    assert torch.equal(out.deepstack, io.deepstack[:, rows])
    assert torch.equal(out.positions, io.positions[:, rows])
    assert out.next_position == io.next_position
    assert (out.importance is not None) == importance
    if importance:
        assert torch.equal(out.importance, io.importance[rows])
    # The closed-up spans hold exactly the kept rows of the same media.
    for before, after, kept in zip(io.spans, out.spans, stay, strict=True):
        assert rows[after.start : after.end].tolist() == kept
        assert after.media == before.media


def test_keeping_everything_changes_nothing() -> None:
    io = make_io(12, [(2, 5), (5, 9)], importance=True)
    out = compact(io, torch.arange(2, 9), Layout.of(io, (3, 4)))
    for field in dataclasses.fields(io):
        one, other = getattr(io, field.name), getattr(out, field.name)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("through_kernels", [False, True])
def test_merged_rows_keep_their_place(through_kernels: bool, request) -> None:
    if through_kernels:
        request.getfixturevalue("kernels_everywhere")
    io = make_io(12, [(2, 5), (5, 9)])
    merge = MergeWeights(torch.tensor([6, 6]), torch.tensor([7, 8]), torch.tensor([0.25, 0.75]))
    out = compact(io, torch.tensor([2, 6]), Layout.of(io, (1, 1)), merge)
    assert out.token_ids.tolist() == [100, 101, 102, 106, 109, 110, 111]
    for plane, whole in [(out.embeds, io.embeds), *zip(out.deepstack, io.deepstack, strict=True)]:
        torch.testing.assert_close(plane[3], 0.25 * whole[7] + 0.75 * whole[8])
        assert torch.equal(plane[2], whole[2])
