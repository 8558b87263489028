"""VisionZip: the shared budget, the scores' scales, and contextual tokens."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import PipelineIO, RequestError, UsageError
from edgevlm.pruners import PruneRequest, Selection, VisualPrunerConfig
from edgevlm.pruners.visionzip import VisionZipPruner, comparable, dominant

from . import algorithms_reference as reference
from .helpers import make_io
from .selecting import kept_by, one_image
from .strategies import layouts

ratios = st.sampled_from([0.1, 0.25, 0.4, 0.5, 0.9])
reproducible = settings(max_examples=100, deadline=None, derandomize=True)


def visionzip(io: PipelineIO, ratio: float = 0.5, **options) -> Selection:
    config = VisualPrunerConfig(True, "visionzip", ratio, min_visual_tokens=0, options=options)
    return VisionZipPruner(config).select(PruneRequest(io, config))


def per_span(io: PipelineIO, rows: list[int]) -> list[int]:
    return [sum(span.start <= row < span.end for row in rows) for span in io.spans]


def with_importance(io: PipelineIO, *values: list[float]) -> PipelineIO:
    importance = torch.zeros(len(io))
    for span, scores in zip(io.spans, values, strict=True):
        importance[span.start : span.end] = torch.tensor(scores)
    return replace(io, importance=importance)


def test_golden_vector() -> None:
    scores = torch.tensor(reference.SCORES)
    assert dominant(scores, torch.zeros(10, dtype=torch.int64), 3, 1).tolist() == [1, 3, 5]


@reproducible
@given(layouts(), ratios, st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
def test_agrees_with_the_reference(layout, ratio, guaranteed, ties, seed) -> None:
    io = make_io(*layout, importance=True, seed=seed)
    if ties:
        io = replace(io, importance=(io.importance * 3).round())
    images = [range(span.start, span.end) for span in io.spans]
    budget = max(
        sum(min(len(image), guaranteed) for image in images),
        round((1 - ratio) * io.visual_tokens),
    )
    expected = reference.visionzip(io.importance.tolist(), images, budget, guaranteed)
    selection = visionzip(io, ratio, min_per_image=guaranteed)
    assert sorted(selection.kept.tolist()) == sorted(expected)
    assert selection.merge is None


def test_attention_moves_the_budget_between_images() -> None:
    io = make_io(36, [(1, 17), (18, 34)])
    io = with_importance(io, [1.0] * 16, [0.1] * 8 + [1.9] * 8)
    # 16 of 32: eight tokens of the second image beat all, it then keeps none of its weak ones.
    assert per_span(io, kept_by(VisionZipPruner, io)) == [8, 8]
    io = with_importance(io, [1.0] * 16, [0.1] * 16)
    assert per_span(io, kept_by(VisionZipPruner, io)) == [15, 1]
    assert per_span(io, kept_by(VisionZipPruner, io, min_per_image=5)) == [11, 5]


def test_guaranteed_tokens_may_exceed_the_ratio() -> None:
    io = make_io(60, [(0, 20), (20, 40), (40, 43)], importance=True)
    kept = kept_by(VisionZipPruner, io, 0.9, min_per_image=6)
    assert per_span(io, kept) == [6, 6, 3]


def test_mean_lets_small_images_win_where_sum_does_not() -> None:
    # Both images average 1 per token and are equally concentrated; one is four times larger.
    io = make_io(90, [(1, 17), (20, 84)])
    io = with_importance(io, [0.5, 1.5] * 8, [0.5, 1.5] * 32)
    share = {
        norm: per_span(io, kept_by(VisionZipPruner, io, 0.5, score_norm=norm))
        for norm in ("sum", "mean", "zscore")
    }
    assert share == {"sum": [8, 32], "mean": [16, 24], "zscore": [8, 32]}


def test_scales_of_scores() -> None:
    scores = torch.tensor([1.0, 1.5, 0.1, 0.1, 0.1])
    assert comparable(scores, [2, 3], "sum").tolist() == scores.tolist()
    mean = comparable(scores, [2, 3], "mean")
    assert torch.allclose(mean, torch.tensor([0.5, 0.75, 0.1 / 3, 0.1 / 3, 0.1 / 3]).double())
    assert comparable(scores, [2, 3], "zscore").tolist() == [-1, 1, 0, 0, 0]
    assert comparable(scores[:1], [1], "zscore").tolist() == [0]


@reproducible
@given(
    layouts(),
    ratios,
    st.sampled_from([0.02, 0.05, 0.09]),
    st.sampled_from(["mean", "sum"]),
    st.integers(0, 10**6),
)
def test_contextual_tokens_are_part_of_the_budget(layout, ratio, share, rule, seed) -> None:
    io = make_io(*layout, importance=True, seed=seed)
    plain = visionzip(io, ratio)
    selection = visionzip(io, ratio, contextual_ratio=share, merge=rule)
    kept = selection.kept.tolist()
    assert len(set(kept)) == len(kept) == len(plain.kept)
    assert min(per_span(io, kept)) >= 1
    count = min(round(share * io.visual_tokens), len(kept) - len(io.spans))
    if not count:
        assert selection.merge is None
        return
    merge = selection.merge
    rows, sources = merge.rows.tolist(), merge.sources.tolist()
    assert len(set(rows)) == count
    assert set(rows) <= set(kept)
    span_of = {row: i for i, span in enumerate(io.spans) for row in range(span.start, span.end)}
    assert all(span_of[row] == span_of[source] for row, source in zip(rows, sources, strict=True))
    # Every leftover of an image that has contextual tokens goes into one of them, once.
    dominants = set(kept) - set(rows)
    images = {span_of[row] for row in rows}
    leftovers = {row for row in span_of if row not in dominants and span_of[row] in images}
    assert Counter(sources) == Counter(leftovers)
    totals = torch.zeros(len(io)).index_add_(0, merge.rows, merge.weights)[sorted(set(rows))]
    if rule == "mean":
        assert torch.allclose(totals, torch.ones(count))
    else:
        assert all(min(abs(total - 1), abs(total - 2)) < 1e-5 for total in totals.tolist())


def test_contextual_tokens_are_shared_out_by_leftovers() -> None:
    # 64 tokens, 32 kept, 6 of them contextual: 26 dominant ones, all in the first image but one.
    io = make_io(70, [(1, 33), (36, 68)])
    io = with_importance(io, [2.0] * 32, [1.0] * 32)
    selection = visionzip(io, 0.5, contextual_ratio=0.1)
    assert per_span(io, selection.kept.tolist()) == [26, 6]
    assert per_span(io, selection.merge.rows.unique().tolist()) == [1, 5]


def test_merging_reaches_the_prompt() -> None:
    rows = torch.from_numpy(reference.golden_rows(10, 2)).float()
    io = one_image(rows, reference.SCORES)
    config = VisualPrunerConfig(
        True, "visionzip", 0.5, min_visual_tokens=0, options={"contextual_ratio": 0.2}
    )
    pruned, report = VisionZipPruner(config).prune(io)
    assert report.visual_tokens_after == 5
    merge = visionzip(io, 0.5, contextual_ratio=0.2).merge
    for target in merge.rows.unique().tolist():
        sources = merge.sources[merge.rows == target]
        place = report.kept_positions.index(target) + 2
        assert torch.allclose(pruned.embeds[place], io.embeds[sources].mean(0), atol=1e-6)
        expected = io.deepstack[:, sources].mean(1)
        assert torch.allclose(pruned.deepstack[:, place], expected, atol=1e-6)
    assert torch.equal(pruned.embeds[:2], io.embeds[:2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_only_a_rounding_of_the_input(dtype) -> None:
    io = make_io(50, [(2, 25), (26, 48)], importance=True, dtype=dtype)
    half = visionzip(io, contextual_ratio=0.1)
    full = visionzip(replace(io, embeds=io.embeds.float()), contextual_ratio=0.1)
    assert torch.equal(half.kept, full.kept)
    assert torch.equal(half.merge.rows, full.merge.rows)
    assert torch.equal(half.merge.weights, full.merge.weights)


@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 2000])
def test_spans_of_all_sizes_and_thirty_of_them(tokens) -> None:
    spans = [(1, tokens + 1), *((tokens + 2 + 3 * i, tokens + 4 + 3 * i) for i in range(29))]
    io = make_io(tokens + 100, spans, importance=True)
    kept = visionzip(io, 0.4, contextual_ratio=0.05).kept.tolist()
    assert len(set(kept)) == max(30, round(0.6 * (tokens + 58)))
    assert min(per_span(io, kept)) >= 1


def test_tokens_all_alike_go_by_position() -> None:
    io = one_image(torch.ones(16, 4), torch.ones(16))
    assert kept_by(VisionZipPruner, io) == list(range(2, 10))


def test_importance_is_required() -> None:
    with pytest.raises(
        RequestError, match=r"'under-test' ranks.*rebuild it with edgevlm build --importance-layer"
    ):
        kept_by(VisionZipPruner, make_io(20, [(2, 18)]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_per_image": 0}, "min_per_image must be 1 or more, got 0"),
        ({"score_norm": "max"}, "score_norm must be one of sum, mean, zscore, got 'max'"),
        ({"merge": "max"}, "merge must be one of mean, sum, got 'max'"),
        ({"contextual_ratio": -0.1}, "contextual_ratio must be 0 to less than 1, got -0.1"),
        ({"contextual_ratio": 0.5}, r"less than the fraction kept at least, 0\.5"),
    ],
)
def test_illegal_options(options, message) -> None:
    with pytest.raises(UsageError, match=message):
        kept_by(VisionZipPruner, make_io(20, [(2, 18)]), **options)
