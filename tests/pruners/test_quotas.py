"""What all pruners share that fill each span's quota exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import PipelineIO, RequestError
from edgevlm.pruners import PruneRequest, VisualPrunerConfig, VisualTokenPruner
from edgevlm.pruners.divprune import DivPruner
from edgevlm.pruners.holov import HoloVPruner
from edgevlm.pruners.random_pruner import RandomPruner
from edgevlm.pruners.scope import ScopePruner
from edgevlm.pruners.stride import StridePruner
from edgevlm.pruners.vispruner import VisPruner

from .helpers import make_io
from .selecting import kept_by
from .strategies import layouts

ALL = [DivPruner, ScopePruner, VisPruner, HoloVPruner, RandomPruner, StridePruner]
BY_IMPORTANCE = [ScopePruner, VisPruner, HoloVPruner]
BY_CONTENT = [DivPruner, *BY_IMPORTANCE]

pruners = pytest.mark.parametrize("cls", ALL)


def assert_quotas(cls: type[VisualTokenPruner], io: PipelineIO, ratio: float) -> None:
    config = VisualPrunerConfig(True, "under-test", ratio, min_visual_tokens=0)
    request = PruneRequest(io, config)
    selected = cls(config).select(request).tolist()
    assert len(set(selected)) == len(selected)
    counts = [sum(span.start <= row < span.end for row in selected) for span in io.spans]
    assert counts == list(request.quotas)


@pruners
@settings(max_examples=40, deadline=None, derandomize=True)
@given(layouts(), st.sampled_from([0.1, 0.25, 0.5, 0.9]), st.integers(0, 10**6))
def test_quotas_are_exact(cls, layout, ratio, seed) -> None:
    assert_quotas(cls, make_io(*layout, importance=True, seed=seed), ratio)


@pruners
@pytest.mark.parametrize("tokens", [1, 15, 16, 17])
def test_small_spans(cls, tokens) -> None:
    for ratio in (0.05, 0.5, 0.95):
        assert_quotas(cls, make_io(tokens + 3, [(2, tokens + 2)], importance=True), ratio)


@pruners
def test_a_large_span(cls) -> None:
    assert_quotas(cls, make_io(2010, [(4, 2004)], hidden=32, importance=True), 0.97)


@pruners
def test_thirty_spans(cls) -> None:
    spans = [(2 + 14 * image, 2 + 14 * image + 4 + image % 9) for image in range(30)]
    assert_quotas(cls, make_io(2 + 14 * 30, spans, importance=True), 0.4)


@pruners
def test_adjacent_spans(cls) -> None:
    assert_quotas(cls, make_io(41, [(0, 13), (13, 14), (14, 40)], importance=True), 0.5)


@pytest.mark.parametrize("cls", BY_CONTENT)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_only_a_rounding_of_the_input(cls, dtype) -> None:
    io = make_io(50, [(2, 25), (26, 48)], importance=True, dtype=dtype)
    assert kept_by(cls, io) == kept_by(cls, replace(io, embeds=io.embeds.float()))
    # Squares of the scaled values overflow fp16; cosines do not change.
    large = replace(io, embeds=io.embeds * 4096)
    assert kept_by(cls, large) == kept_by(cls, io)


@pytest.mark.parametrize("cls", BY_CONTENT)
def test_tokens_all_alike_go_by_position(cls) -> None:
    embeds = torch.tensor([2.0, -1, 3, 5]).expand(20, 4)
    io = replace(make_io(20, [(2, 18)], embeds=embeds), importance=torch.ones(20))
    # After its four most attended, VisPruner drops one hand (6, 8, .. 16), then 11 and 15.
    expected = [2, 3, 4, 5, 7, 9, 13, 17] if cls is VisPruner else list(range(2, 10))
    assert kept_by(cls, io, **({"chunks": 1} if cls is HoloVPruner else {})) == expected


@pytest.mark.parametrize("cls", BY_CONTENT)
def test_zero_rows(cls) -> None:
    io = make_io(20, [(2, 18)], embeds=torch.zeros(20, 4), importance=True)
    assert_quotas(cls, io, 0.5)


@pytest.mark.parametrize("cls", BY_IMPORTANCE)
def test_importance_is_required(cls) -> None:
    with pytest.raises(
        RequestError, match=r"'under-test' ranks.*rebuild it with edgevlm build --importance-layer"
    ):
        kept_by(cls, make_io(20, [(2, 18)]))


@pytest.mark.parametrize("cls", BY_IMPORTANCE)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -1.0])
def test_importance_must_be_sound(cls, value) -> None:
    io = make_io(20, [(2, 18)], importance=True)
    io.importance[5] = value
    with pytest.raises(RequestError, match="needs finite importance of 0 or more"):
        kept_by(cls, io)
