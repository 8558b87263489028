"""DART behind an early layer: the golden vector, a slow reference, and what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.core import PipelineIO, RequestError, UsageError
from edgevlm.pruners import EarlyStates, PruneReport, VisualPrunerConfig, create_visual_pruner

from .dart_reference import cosine, strongest
from .helpers import make_io
from .test_dart import golden_embeds


def make_early(io: PipelineIO, keys: Tensor, normed: Tensor | None = None) -> EarlyStates:
    return EarlyStates(io, 2, keys, io.embeds if normed is None else normed)


def prune(early: EarlyStates, ratio: float, **options: Any) -> tuple[PipelineIO, PruneReport]:
    config = VisualPrunerConfig(True, "dart-layer", ratio, options=options)
    return create_visual_pruner(config).prune(early.io, early=early)


def test_golden_vector_of_the_paper() -> None:
    io = make_io(24, [(3, 19)], embeds=golden_embeds())
    options = {"pivot_image_tokens": 2, "pivot_text_tokens": 2, "quota": "paper"}
    _, report = prune(make_early(io, io.embeds.roll(1, 0)), 0.5, **options)
    assert report.kept_positions == (3, 5, 7, 8, 10, 11, 13, 14, 16, 18)


@pytest.mark.parametrize(("tokens", "ratio", "kept"), [(576, 0.778, 124), (1995, 0.25, 1500)])
def test_counts_of_the_paper(tokens: int, ratio: float, kept: int) -> None:
    io = make_io(tokens + 12, [(4, 4 + tokens)])
    early = make_early(io, io.embeds)
    assert prune(early, ratio, quota="paper")[1].visual_tokens_after == kept


def reference(early: EarlyStates, ratio: float, image: int, text: int) -> list[int]:
    """One token at a time; like ``dart_reference``, with pivots by other numbers."""
    strength = early.keys.abs().sum(dim=1).tolist()
    rows = early.normed.tolist()
    after = range(early.io.spans[-1].end, len(early.io))
    shared = strongest(after, strength)[:text]
    kept: list[int] = []
    for span in early.io.spans:
        pool = list(range(span.start, span.end))
        quota = VisualPrunerConfig(reduction_ratio=ratio).quota(len(pool))
        own = strongest(pool, strength)[: min(image, quota)]
        retained = list(own)
        for turn, pivot in enumerate(own + shared):
            pool = [row for row in pool if row not in retained]
            pool.sort(key=lambda row: (cosine(rows[pivot], rows[row]), row))
            left = quota - len(retained)
            retained += pool[: -(-left // (len(own + shared) - turn))]
        kept += retained
    return sorted(kept)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from([0.25, 0.5, 0.8]),
    st.integers(0, 4),
    st.integers(1, 5),
    st.integers(0, 10**6),
)
def test_agrees_with_the_reference(ratio: float, image: int, text: int, seed: int) -> None:
    # With entries of -1, 0 and 1 equal cosines are equal in any precision.
    draw = torch.Generator().manual_seed(seed)
    keys, normed = torch.randint(-1, 2, (2, 34, 4), generator=draw).float()
    io = make_io(34, [(3, 13), (15, 28)], seed=seed)
    early = make_early(io, keys, normed)
    options = {"pivot_image_tokens": image, "pivot_text_tokens": text}
    _, report = prune(early, ratio, **options)
    assert list(report.kept_positions) == reference(early, ratio, image, text)


def test_the_system_prompt_is_no_pivot() -> None:
    io = make_io(30, [(5, 25)])
    keys = torch.ones(30, 4)
    keys[25:] = 2
    loud = keys.clone()
    loud[:5] = 100
    same, other = (
        prune(make_early(io, each), 0.5, pivot_text_tokens=9)[1] for each in (keys, loud)
    )
    assert same.kept_positions == other.kept_positions


def test_what_comes_back_is_the_shortened_prompt_behind_the_layer() -> None:
    io = make_io(30, [(5, 25)])
    behind = replace(io, embeds=io.embeds + 1)
    early = make_early(behind, io.embeds)
    short, report = prune(early, 0.5)
    rows = early.surviving_rows(short, report.kept)
    assert rows.tolist() == [*range(5), *report.kept_positions, *range(25, 30)]
    assert torch.equal(short.embeds, behind.embeds[rows])
    assert torch.equal(short.positions, io.positions[:, rows])


def test_an_engine_that_cannot_stop_leaves_the_prompt_alone() -> None:
    io = make_io(30, [(5, 25)])
    pruner = create_visual_pruner(VisualPrunerConfig(True, "dart-layer"))
    same, report = pruner.prune(io)
    assert same is io
    assert report.skipped == "the engine cannot stop after an early decoder layer of this prompt"


def test_layers_are_wanted_only_of_prompts_to_prune() -> None:
    config = VisualPrunerConfig(True, "dart-layer", options={"layer": 3})
    long, short = make_io(30, [(5, 25)]), make_io(30, [(5, 15)])
    assert create_visual_pruner(config).wanted_layers(long) == 3
    assert create_visual_pruner(config).wanted_layers(short) == 0
    assert create_visual_pruner(replace(config, enabled=False)).wanted_layers(long) == 0
    assert create_visual_pruner(VisualPrunerConfig(True, "dart")).wanted_layers(long) == 0


def test_no_pivot_at_all() -> None:
    io = make_io(25, [(5, 25)])
    with pytest.raises(RequestError, match="no text follows the last image"):
        prune(make_early(io, io.embeds), 0.5, pivot_image_tokens=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 0}, "layer must be 1 or more, got 0"),
        ({"quota": "most"}, "quota must be one of exact, paper, got 'most'"),
        ({"pivot_text_tokens": 65}, "each be 0 to 64"),
    ],
)
def test_illegal_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        create_visual_pruner(VisualPrunerConfig(True, "dart-layer", options=options))


def test_by_kernels_the_same_tokens_stay(kernels_everywhere: None) -> None:
    draw = torch.Generator().manual_seed(1)
    keys, normed = torch.randint(-1, 2, (2, 40, 16), generator=draw).to(torch.float16)
    io = make_io(40, [(3, 19), (20, 36)], hidden=16, dtype=torch.float16)
    early = make_early(io, keys, normed)
    assert list(prune(early, 0.5)[1].kept_positions) == reference(early, 0.5, 4, 4)
