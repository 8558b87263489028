"""Downsampling: what is asked of the processor, and what is reported of its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgevlm.core import UsageError
from edgevlm.pruners import VisualPrunerConfig, create_visual_pruner

from .helpers import make_io

HALF = VisualPrunerConfig(True, "downsample", 0.5)
IO = make_io(24, [(2, 12), (12, 22)])


def test_there_is_nothing_to_measure_before_there_are_embeddings() -> None:
    with pytest.raises(UsageError, match="reduction_ratio must be a number"):
        create_visual_pruner(replace(HALF, reduction_ratio="auto"))


def test_images_are_asked_for_at_their_quota() -> None:
    pruner = create_visual_pruner(HALF)
    assert [pruner.shown_tokens(tokens) for tokens in (16, 17, 1000)] == [8, 9, 500]


@pytest.mark.parametrize(
    ("changes", "tokens"), [({}, 15), ({"min_visual_tokens": 65}, 64), ({"enabled": False}, 64)]
)
def test_small_images_and_disabled_pruning_ask_for_nothing(
    changes: dict[str, object], tokens: int
) -> None:
    pruner = create_visual_pruner(replace(HALF, **changes))  # type: ignore[arg-type]
    assert pruner.shown_tokens(tokens) == tokens


def test_other_pruners_never_shrink() -> None:
    assert create_visual_pruner(replace(HALF, algorithm="dart")).shown_tokens(1000) == 1000


def test_the_prompt_stays_and_both_counts_are_reported() -> None:
    out, report = create_visual_pruner(HALF).prune(IO, shrunk=17)
    assert out is IO
    assert (report.algorithm, report.skipped) == ("downsample", None)
    assert (report.visual_tokens_before, report.visual_tokens_after) == (37, 20)
    assert (report.prompt_tokens_before, report.prompt_tokens_after) == (41, 24)
    assert report.pruned_tokens == 17
    assert report.kept_positions == tuple(range(2, 22))


@pytest.mark.parametrize(
    ("changes", "io", "reason"),
    [
        ({"enabled": False}, IO, "disabled"),
        ({}, make_io(8, []), "no visual tokens"),
        ({"min_visual_tokens": 21}, IO, "fewer visual tokens than min_visual_tokens"),
        ({}, IO, "nothing to remove"),  # two images of 10 tokens are too small each
    ],
)
def test_nothing_shrunk_has_a_reason(changes: dict[str, object], io: object, reason: str) -> None:
    pruner = create_visual_pruner(replace(HALF, **changes))  # type: ignore[arg-type]
    out, report = pruner.prune(io)  # type: ignore[arg-type]
    assert out is io
    assert (report.skipped, report.pruned_tokens) == (reason, 0)


def test_selecting_by_hand_keeps_everything() -> None:
    from edgevlm.pruners import PruneRequest

    rows = create_visual_pruner(HALF).select(PruneRequest(IO, HALF))
    assert torch.equal(rows, torch.arange(2, 22))  # type: ignore[arg-type]
