"""The base class: its guards, its report, and what a faulty pruner cannot do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import PipelineIO, RequestError, UsageError
from edgevlm.pruners import (
    DartPruner,
    MergeWeights,
    PruneRequest,
    Selection,
    VisualPrunerConfig,
    VisualTokenPruner,
    keeps_quotas,
)

from .helpers import make_io
from .strategies import layouts

ENABLED = VisualPrunerConfig(enabled=True, algorithm="mine", reduction_ratio=0.5)
IO = make_io(24, [(2, 12), (12, 22)])


def pruner(
    select: Callable[[PruneRequest], Any], config: VisualPrunerConfig = ENABLED
) -> VisualTokenPruner:
    body = {"select": lambda self, request: select(request)}
    return type("Mine", (VisualTokenPruner,), body)(config)


def ends(request: PruneRequest) -> torch.Tensor:
    """Keep the first and the last token of each span, in a jumbled order."""
    rows = {row for span in request.io.spans for row in (span.end - 1, span.start)}
    return torch.tensor(sorted(rows, reverse=True))


def test_prune_compacts_and_reports() -> None:
    out, report = pruner(ends).prune(IO)
    assert out.token_ids.tolist() == [100, 101, 102, 111, 112, 121, 122, 123]
    assert [(span.start, span.end, span.media) for span in out.spans] == [(2, 4, 0), (4, 6, 1)]
    assert (report.algorithm, report.reduction_ratio, report.skipped) == ("mine", 0.5, None)
    assert (report.visual_tokens_before, report.prompt_tokens_before) == (20, 24)
    assert report.kept_positions == (2, 11, 12, 21)
    assert report.selection_ms > 0
    counts = (report.visual_tokens_after, report.pruned_tokens, report.prompt_tokens_after)
    assert counts == (4, 16, 8)
    assert len(out) == report.prompt_tokens_after
    assert out.visual_tokens == report.visual_tokens_after


def test_report_is_plain_json() -> None:
    _, report = pruner(ends).prune(IO)
    assert json.loads(json.dumps(report.to_json())) == {
        "algorithm": "mine",
        "reduction_ratio": 0.5,
        "adapted": [],
        "visual_tokens_before": 20,
        "visual_tokens_after": 4,
        "prompt_tokens_before": 24,
        "prompt_tokens_after": 8,
        "pruned_tokens": 16,
        "skipped": None,
        "selection_ms": report.selection_ms,
        "kept_positions": [2, 11, 12, 21],
    }


@pytest.mark.parametrize(
    ("changes", "io", "reason"),
    [
        ({"enabled": False}, IO, "disabled"),
        ({}, make_io(8, []), "no visual tokens"),
        ({"min_visual_tokens": 21}, IO, "fewer visual tokens than min_visual_tokens"),
        ({"min_visual_tokens": 20, "reduction_ratio": 0.01}, IO, "nothing to remove"),
        ({"min_visual_tokens": 0}, make_io(4, [(1, 2), (2, 3)]), "nothing to remove"),
    ],
)
def test_a_guard_returns_the_prompt_and_a_reason(
    changes: dict[str, Any], io: PipelineIO, reason: str
) -> None:
    def never(request: PruneRequest) -> torch.Tensor:
        raise AssertionError("select must not be called")

    out, report = pruner(never, replace(ENABLED, **changes)).prune(io)
    assert out is io
    assert report.skipped == reason
    assert report.to_json()["skipped"] == reason
    assert report.pruned_tokens == 0
    everything = [row for span in io.spans for row in range(span.start, span.end)]
    assert list(report.kept_positions) == everything


def test_enough_tokens_are_pruned() -> None:
    assert pruner(ends, replace(ENABLED, min_visual_tokens=20)).prune(IO)[1].skipped is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_embeddings_are_named(value: float) -> None:
    embeds = IO.embeds.clone()
    embeds[7, 3] = value
    with pytest.raises(RequestError, match="NaN or Inf, first at token 7"):
        pruner(ends).prune(replace(IO, embeds=embeds))


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        (None, "expected a tensor of row numbers, got NoneType"),
        ([2, 12], "expected a tensor of row numbers, got list"),
        (torch.tensor([2.0, 12.0]), "int64 or int32, got torch.float32"),
        (torch.ones(24, dtype=torch.bool), "int64 or int32, got torch.bool"),
        (torch.tensor([[2], [12]]), r"got torch.int64 of shape \(2, 1\)"),
        (torch.tensor([2, 12, 24]), "row 24 is outside the prompt's 0..23"),
        (torch.tensor([-1, 2, 12]), "row -1 is outside"),
        (torch.tensor([2, 12, 2]), "row 2 is selected more than once"),
        (torch.tensor([2, 12, 1]), "row 1 is a text token"),
        (torch.tensor([2, 3]), r"no token of the visual span \[12, 22\) is kept"),
        (torch.tensor([], dtype=torch.int64), r"no token of the visual span \[2, 12\) is kept"),
    ],
)
def test_a_wrong_selection_fails_the_request_by_name(selected: Any, message: str) -> None:
    with pytest.raises(RequestError, match=f"'mine' made an invalid selection: .*{message}"):
        pruner(lambda request: selected).prune(IO)


def test_an_exception_in_select_fails_the_request_by_name() -> None:
    with pytest.raises(RequestError, match="'mine' failed: ZeroDivisionError") as caught:
        pruner(lambda request: 1 // 0).prune(IO)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_request_error_of_select_passes_unchanged() -> None:
    def refuse(request: PruneRequest) -> torch.Tensor:
        raise RequestError("the engine gives no importance")

    with pytest.raises(RequestError, match=r"^the engine gives no importance$"):
        pruner(refuse).prune(IO)


def test_int32_rows_are_welcome() -> None:
    assert pruner(lambda request: ends(request).int()).prune(IO)[1].kept_positions == (
        2,
        11,
        12,
        21,
    )


def merging(**changes: Any) -> Selection:
    """Row 3 becomes half of itself plus twice row 5; row 12 becomes row 13."""
    terms = {
        "rows": torch.tensor([3, 12, 3]),
        "sources": torch.tensor([3, 13, 5], dtype=torch.int32),
        "weights": torch.tensor([0.5, 1.0, 2.0]),
    }
    return Selection(torch.tensor([12, 3, 2]), MergeWeights(**{**terms, **changes}))


def test_a_selection_may_merge() -> None:
    out, report = pruner(lambda request: merging()).prune(IO)
    rows = [0, 1, 2, 3, 12, 22, 23]
    assert report.kept_positions == (2, 3, 12)
    assert torch.equal(out.positions, IO.positions[:, rows])
    for x, whole in [(out.embeds, IO.embeds), *zip(out.deepstack, IO.deepstack, strict=True)]:
        torch.testing.assert_close(x[3], 0.5 * whole[3] + 2 * whole[5])
        assert torch.equal(x[4], whole[13])
        untouched = [0, 1, 2, 5, 6]
        assert torch.equal(x[untouched], whole[rows][untouched])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": torch.tensor([3, 12, 4])}, "row 4 is merged into but not kept"),
        ({"rows": torch.tensor([3, 12, 1])}, "row 1 is a text token"),
        ({"rows": [3, 12, 3]}, "expected a tensor of merged rows, got list"),
        ({"sources": torch.tensor([3, 13, 22])}, "row 22 is a text token"),
        ({"sources": torch.tensor([3, 13, 24])}, "row 24 is outside"),
        ({"sources": torch.tensor([3.0, 1.0, 2.0])}, "expected merge sources as a 1-D tensor of"),
        ({"weights": torch.tensor([1.0, float("nan"), 1.0])}, "weights must be finite"),
        ({"weights": torch.tensor([1, 1, 1])}, "weights as a 1-D tensor of fp32"),
        ({"weights": torch.ones(2)}, "got 3 rows, 3 sources and 2 weights"),
    ],
)
def test_a_wrong_merge_fails_the_request_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=f"'mine' made an invalid selection: .*{message}"):
        pruner(lambda request: merging(**changes)).prune(IO)


def test_a_merge_must_be_weights() -> None:
    answer = Selection(torch.tensor([3, 12]), (1, 2))
    with pytest.raises(RequestError, match="merge must be MergeWeights, got tuple"):
        pruner(lambda request: answer).prune(IO)


class Trusted(VisualTokenPruner):
    """Keeps the first of each span, and says that this needs no check."""

    @keeps_quotas
    def select(self, request: PruneRequest) -> torch.Tensor:
        spans = zip(request.io.spans, request.quotas, strict=True)
        return torch.cat([torch.arange(s.start, s.start + quota) for s, quota in spans])


class Overridden(Trusted):
    def select(self, request: PruneRequest) -> torch.Tensor:
        return torch.tensor([12, 2])


def test_a_trusted_selection_gives_what_a_checked_one_gives() -> None:
    one, report = Trusted(ENABLED).prune(IO)
    other, checked = pruner(lambda request: Trusted(ENABLED).select(request)).prune(IO)
    assert report.kept_positions == checked.kept_positions == (2, 3, 4, 5, 6, 12, 13, 14, 15, 16)
    assert one.spans == other.spans
    assert torch.equal(one.embeds, other.embeds)


def test_trust_is_not_inherited_by_an_override() -> None:
    assert Overridden(ENABLED).prune(IO)[1].kept_positions == (2, 12)


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")  # of the damage, on purpose
@pytest.mark.usefixtures("kernels_everywhere")
class TestWithoutWaiting:
    """Pruning as it goes on a GPU: trusted, through the kernels, the embeddings checked later."""

    def test_nothing_is_wrong(self) -> None:
        out, report = Trusted(ENABLED).prune(IO)
        report.require_finite()
        assert torch.equal(out.embeds, IO.embeds[[0, 1, *report.kept_positions, 22, 23]])

    @pytest.mark.parametrize("cls", [Trusted, DartPruner])
    @pytest.mark.parametrize("value", [float("nan"), -float("inf"), 1e38])
    def test_damage_is_named_later_and_harmless_until_then(self, cls: Any, value: float) -> None:
        embeds = IO.embeds.clone()
        embeds[3, 1] = embeds[5, :] = embeds[23, 0] = value
        out, report = cls(ENABLED).prune(replace(IO, embeds=embeds))
        assert bool(out.embeds.isfinite().all())
        assert bool((out.embeds[-1] == 0).all())
        assert bool((out.embeds[-2] == IO.embeds[22]).all())
        assert report.visual_tokens_after == 10
        with pytest.raises(RequestError, match="NaN or Inf, first at token 3"):
            report.require_finite()
        assert report.to_json()["kept_positions"] == list(report.kept_positions)

    def test_a_checked_pruner_is_told_of_damage_first(self) -> None:
        embeds = IO.embeds.clone()
        embeds[7, 3] = float("nan")
        with pytest.raises(RequestError, match="NaN or Inf, first at token 7"):
            pruner(ends).prune(replace(IO, embeds=embeds))


@settings(max_examples=50, deadline=None)
@given(layouts(), st.integers(0, 10**6))
def test_any_legal_selection_keeps_the_prompt_consistent(layout, seed) -> None:
    io = make_io(*layout, seed=seed)
    generator = torch.Generator().manual_seed(seed)

    def random(request: PruneRequest) -> torch.Tensor:
        picks = [
            span.start + torch.randperm(len(span), generator=generator)[:quota]
            for span, quota in zip(request.io.spans, request.quotas, strict=True)
        ]
        return torch.cat(picks)

    out, report = pruner(random, replace(ENABLED, min_visual_tokens=0)).prune(io)
    text = [row for row in range(len(io)) if not any(s <= row < e for s, e in layout[1])]
    rows = sorted([*text, *report.kept_positions])
    assert out.token_ids.tolist() == [row + 100 for row in rows]
    assert torch.equal(out.positions, io.positions[:, rows])
    assert out.next_position == io.next_position
    assert len(out.spans) == len(io.spans)


@dataclass(frozen=True)
class Options:
    share: float
    rounds: int = 1
    mode: str = "sum"
    sorted: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must be 0 to 1, got {self.share}")


class WithOptions(VisualTokenPruner):
    Options = Options

    def select(self, request: PruneRequest) -> torch.Tensor:
        return ends(request)


def test_options_are_filled_in() -> None:
    given = {"share": 1, "rounds": 2, "mode": "mean", "sorted": True}
    assert WithOptions(replace(ENABLED, options=given)).options == Options(1, 2, "mean", True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": 0.5, "speed": 1}, "no option 'speed'; its options: share, rounds, mode, sorted"),
        ({"share": "half"}, "option share must be of type float, got 'half'"),
        ({"share": True}, "option share must be of type float, got True"),
        ({"share": 0.5, "rounds": 1.0}, "option rounds must be of type int, got 1.0"),
        ({"share": 0.5, "rounds": True}, "option rounds must be of type int"),
        ({"share": 0.5, "mode": 1}, "option mode must be of type str"),
        ({"share": 0.5, "sorted": 1}, "option sorted must be of type bool"),
        ({"share": 2.0}, "'mine': share must be 0 to 1, got 2.0"),
        ({}, "'mine': .*missing.*'share'"),
    ],
)
def test_illegal_options(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WithOptions(replace(ENABLED, options=given))


def test_a_pruner_without_options_has_none() -> None:
    with pytest.raises(UsageError, match="no option 'speed'; its options: none; settings of every"):
        pruner(ends, replace(ENABLED, options={"speed": 1}))
