"""The automatic ratio: what is measured, what follows, and what is reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.core import PipelineIO, RequestError, UsageError, VisualSpan
from edgevlm.pruners import (
    EarlyStates,
    SkipReason,
    VisualPrunerConfig,
    adaptive,
    create_visual_pruner,
    visual_pruner_names,
)
from edgevlm.pruners.adaptive import (
    SAMPLE,
    ImageBudget,
    adapt,
    distinct_shares,
    sampled_rows,
    span_edges,
)

from .helpers import make_io

CPU = torch.device("cpu")
TOO_EARLY = {"downsample"}  # asks before there are embeddings


def grouped(sizes: Sequence[int], hidden: int = 32, noise: float = 0.0) -> Tensor:
    """Tokens ``[sum(sizes),hidden]`` in groups that are at right angles to one another."""
    groups = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    rows = 5 * torch.nn.functional.one_hot(groups, hidden).float()
    generator = torch.Generator().manual_seed(0)
    return rows + noise * torch.randn(rows.shape, generator=generator)


def prompt(*images: Tensor) -> PipelineIO:
    """A text token before, between and after ``images``."""
    text = torch.ones(1, images[0].shape[1])
    embeds, spans, row = [text], [], 1
    for image in images:
        embeds += [image, text]
        spans.append((row, row + len(image)))
        row += len(image) + 1
    return make_io(row, spans, embeds=torch.cat(embeds))


def measured(*images: Tensor) -> list[float]:
    io = prompt(*images)
    return [found.distinct for found in adapt(io.embeds, io.spans, 0.0, 0.9)]


FLAT, DENSE = grouped([28, 2, 1, 1]), grouped([1] * 32)


def test_groups_are_counted() -> None:
    # 4 groups in 32 tokens; 32 of 32; 8 groups of 4 each, not quite equal.
    assert measured(FLAT, DENSE) == pytest.approx([4 / 32, 1.0])
    assert measured(grouped([4] * 8, noise=0.1)) == pytest.approx([8 / 32])


def test_images_do_not_affect_one_another_whatever_their_sizes() -> None:
    short, long = grouped([6, 4]), grouped([30, 20, 10])
    together = measured(short, DENSE, long, FLAT)
    assert together == pytest.approx([measured(image)[0] for image in (short, DENSE, long, FLAT)])
    assert together[0] == pytest.approx(2 / 10)


def test_what_all_tokens_have_in_common_does_not_count() -> None:
    shift = 100 * torch.randn(32, generator=torch.Generator().manual_seed(1))
    assert measured(DENSE + shift) == pytest.approx(measured(DENSE))
    assert measured(FLAT + shift) == pytest.approx(measured(FLAT))


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_an_even_surface_is_one_group(noise: float) -> None:
    generator = torch.Generator().manual_seed(0)
    even, grain = (torch.randn(rows, 32, generator=generator) for rows in (1, 64))
    assert measured(even + noise * grain) == pytest.approx([1 / 64])


def test_a_single_token_is_distinct() -> None:
    assert measured(torch.ones(1, 8), torch.zeros(1, 8)) == [1.0, 1.0]


def test_zeros_are_one_group() -> None:
    assert measured(torch.zeros(8, 8)) == pytest.approx([1 / 8])


def test_large_images_are_sampled_evenly() -> None:
    spans = (VisualSpan(3, 3 + 4 * SAMPLE, 0), VisualSpan(1000, 1003, 1))
    rows, valid = sampled_rows(span_edges(spans, CPU))
    assert rows[0].tolist() == [3 + 4 * place + 2 for place in range(SAMPLE)]
    assert rows[1].tolist() == [1000, 1001] + [1002] * (SAMPLE - 2)
    assert valid.tolist() == [[True] * SAMPLE, [True] * 3 + [False] * (SAMPLE - 3)]


def test_what_is_no_number_is_distinct_and_harms_no_other_image() -> None:
    embeds = torch.cat((torch.full((1, 32), torch.nan), FLAT, FLAT))
    embeds[3, 3] = torch.nan
    spans = (VisualSpan(1, 33, 0), VisualSpan(33, 65, 1))
    found = [budget.distinct for budget in adapt(embeds, spans, 0.0, 0.9)]
    assert found == pytest.approx([1.0, 4 / 32])


def test_kernels_are_used_where_they_work(
    kernels_everywhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(adaptive, "distinct_shares")
    assert measured(FLAT, DENSE) == pytest.approx([4 / 32, 1.0])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(0, 3))
def test_a_share_lies_above_0_and_up_to_1(sizes: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    images = [torch.randn(size, 8, generator=generator) for size in sizes]
    for share, size in zip(measured(*images), sizes, strict=True):
        assert 1 / size - 1e-5 <= share <= 1 + 1e-5


def test_half_precision_measures_the_same() -> None:
    image = grouped([4] * 8, noise=0.1)
    edges = torch.tensor([[0, 32]], dtype=torch.int32)
    found = [distinct_shares(image.to(dtype), edges) for dtype in (torch.float16, torch.bfloat16)]
    for share in found:
        assert share.dtype == torch.float32
        torch.testing.assert_close(share, distinct_shares(image, edges))


def test_the_ratio_is_what_repeats_within_bounds() -> None:
    io = prompt(FLAT, grouped([2] * 16), DENSE)
    assert adapt(io.embeds, io.spans, 0.1, 0.6) == (
        ImageBudget(pytest.approx(0.125), 0.6),
        ImageBudget(pytest.approx(0.5), pytest.approx(0.5)),
        ImageBudget(pytest.approx(1.0), 0.1),
    )
    assert adapt(io.embeds, (), 0.1, 0.6) == ()


def auto(name: str, **settings: float | str) -> VisualPrunerConfig:
    return VisualPrunerConfig.from_mapping(
        {"algorithm": name, "reduction_ratio": "auto", "min_visual_tokens": 0, **settings}
    )


def test_each_image_has_its_own_quota_and_the_report_says_why() -> None:
    io = prompt(FLAT, DENSE)
    short, report = create_visual_pruner(auto("dart", auto_max=0.75)).prune(io)
    assert [len(span) for span in short.spans] == [8, 29]
    document = json.loads(json.dumps(report.to_json()))
    assert document["reduction_ratio"] == "auto"
    assert document["adapted"] == [
        {"distinct": 0.125, "reduction_ratio": 0.75},
        {"distinct": 1.0, "reduction_ratio": 0.1},
    ]


def test_dense_images_may_be_left_alone() -> None:
    io = prompt(DENSE)
    same, report = create_visual_pruner(auto("dart", auto_min=0)).prune(io)
    assert same is io and report.skipped is SkipReason.NOTHING_TO_REMOVE
    assert report.adapted == (ImageBudget(1.0, 0.0),)


def test_nothing_is_measured_where_nothing_will_be_pruned() -> None:
    io = prompt(FLAT)
    pruner = create_visual_pruner(auto("dart", min_visual_tokens=100))
    assert pruner.prune(io)[1].adapted == ()


@pytest.mark.parametrize("name", sorted(set(visual_pruner_names()) - TOO_EARLY))
def test_every_pruner_takes_it(name: str) -> None:
    io = prompt(FLAT, grouped([2] * 16), DENSE)
    io = replace(io, importance=torch.rand(len(io), generator=torch.Generator().manual_seed(0)))
    pruner = create_visual_pruner(auto(name))
    early = None
    if pruner.wanted_layers(io):
        hidden = replace(io, embeds=torch.randn_like(io.embeds))  # not what is measured
        early = EarlyStates(hidden, pruner.early_layers, torch.randn(len(io), 8), hidden.embeds)
    _, report = pruner.prune(io, early=early)
    assert report.visual_tokens_after == 16 + 16 + 29
    assert [image.reduction_ratio for image in report.adapted] == pytest.approx([0.5, 0.5, 0.1])


def test_the_paper_s_quota_follows() -> None:
    io = prompt(grouped([10] * 4), grouped([2] * 20), grouped([1] * 32))
    pruner = create_visual_pruner(auto("dart-layer", quota="paper"))
    early = EarlyStates(io, 2, torch.randn(len(io), 8), io.embeds)
    short, report = pruner.prune(io, early=early)
    assert [image.reduction_ratio for image in report.adapted] == pytest.approx([0.5, 0.5, 0.1])
    # 4 image pivots and 1 text pivot, as one text token follows: 4 + 5 * floor(n (1 - r) / 8).
    assert [len(span) for span in short.spans] == [4 + 5 * 2, 4 + 5 * 2, 4 + 5 * 3]


def test_embeddings_that_are_not_finite_are_still_found() -> None:
    image = FLAT.clone()
    image[3, 3] = torch.nan
    with pytest.raises(RequestError, match="NaN"):
        create_visual_pruner(auto("dart")).prune(prompt(image))


def test_contextual_tokens_must_fit_the_smallest_budget() -> None:
    with pytest.raises(UsageError, match=r"fraction kept at least, 0\.25"):
        create_visual_pruner(auto("visionzip", auto_max=0.75, contextual_ratio=0.3))
