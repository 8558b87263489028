"""Pruning after the first decoder layers, through a real pruner and a real network."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgevlm.core import EngineLimits
from edgevlm.models import mrope_cos_sin
from edgevlm.pruners import VisualPrunerConfig, VisualTokenPruner, create_visual_pruner
from edgevlm.runtime import staging
from tests.models.random_model import RandomModel, make_random_model
from tests.models.test_networks import PlainOperators, load

from .llm_engines import make_batch, make_engine, make_prompt

IO = make_prompt(40, seed=2, image=(5, 30))


@pytest.fixture(scope="module")
def model() -> RandomModel:
    return make_random_model(seed=5)


def make_pruner(**options: Any) -> VisualTokenPruner:
    return create_visual_pruner(VisualPrunerConfig(True, "dart-layer", 0.5, options=options))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("layer", [1, 2, 3])
@torch.inference_mode()
def test_tokens_are_dropped_between_two_layers(model: RandomModel, layer: int, fused: bool) -> None:
    engine, pruner = make_engine(model, fused=fused), make_pruner(layer=layer)
    early = staging.begin(engine, 1, IO, pruner)
    assert early is not None
    short, report = pruner.prune(IO, early=early)
    logits = staging.finish(engine, 1, short, early, report)
    assert report.visual_tokens_after == 13

    network = load_text(model)
    rows = early.surviving_rows(short, report.kept)
    x, planes, positions = IO.embeds[None], IO.deepstack[:, None], IO.positions[:, None]
    for index, each in enumerate(network.layers):
        if index == layer:
            x, planes, positions = x[:, rows], planes[:, :, rows], positions[:, :, rows]
        cos, sin = mrope_cos_sin(positions, model.config.text, torch.float32)
        x = each(x, cos, sin, PlainOperators(causal=True))
        if index < len(planes):
            x = x + planes[index]
    expected = network.lm_head(network.norm(x[0, -1]))
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)


def load_text(model: RandomModel) -> Any:
    from edgevlm.models import TextModel

    return load(TextModel(model.config.text), model.text_state())


def test_generation_goes_on_from_the_kept_tokens(model: RandomModel) -> None:
    plain, fused = (make_engine(model, fused=fused) for fused in (False, True))
    pruner = make_pruner()
    found = []
    for engine in (plain, fused):
        engine.prefill(0, make_prompt(60, seed=9))  # what was there before
        early = staging.begin(engine, 0, IO, pruner)
        short, report = pruner.prune(IO, early=early)
        staging.finish(engine, 0, short, early, report)
        found.append(engine.decode(make_batch((len(short),))))
    torch.testing.assert_close(found[0], found[1], atol=2e-4, rtol=1e-4)


def test_a_prompt_that_does_not_fit_whole_is_not_begun(model: RandomModel) -> None:
    engine = make_engine(model, limits=EngineLimits(39, 64, 1))
    assert staging.begin(engine, 0, IO, make_pruner()) is None


def test_other_engines_and_pruners_prefill_in_one_piece(model: RandomModel) -> None:
    engine = make_engine(model)
    dart = create_visual_pruner(VisualPrunerConfig(True, "dart", 0.5))
    assert staging.begin(engine, 0, IO, dart) is None

    class Whole:
        limits = engine.limits
        prefill = engine.prefill

    assert staging.begin(Whole(), 0, IO, make_pruner()) is None  # type: ignore[arg-type]
    short, report = dart.prune(IO)
    logits = staging.finish(Whole(), 0, short, None, report)  # type: ignore[arg-type]
    assert torch.equal(logits, engine.prefill(0, short))
