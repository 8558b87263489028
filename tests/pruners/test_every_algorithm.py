"""What holds for every registered algorithm: sizes at the edges, many images, broken input."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgevlm.core import PipelineIO, RequestError
from edgevlm.pruners import VisualPrunerConfig, create_visual_pruner, visual_pruner_names
from edgevlm.pruners.registry import _REGISTRY

from .helpers import make_io

# Those that choose among the tokens of an assembled prompt, with nothing but the prompt.
CHOOSING = [name for name in _REGISTRY.names() if name not in ("downsample", "dart-layer")]
GLOBAL_BUDGET = ("visionzip",)


def prompt(sizes: list[int], seed: int = 0) -> PipelineIO:
    """Images of these sizes between text tokens, with importance."""
    spans, row = [], 3
    for size in sizes:
        spans.append((row, row + size))
        row += size + 2
    return make_io(row + 5, spans, importance=True, seed=seed)


def test_the_list_is_complete() -> None:
    assert set(CHOOSING) < set(visual_pruner_names())
    assert len(CHOOSING) == 8


LAYOUTS = ([16], [17], [16] * 30, [1, 40, 2, 17, 300])
CASES = [*((sizes, ratio) for sizes in LAYOUTS for ratio in (0.25, 0.5)), ([2000], 0.9)]


@pytest.mark.parametrize(("sizes", "ratio"), CASES, ids=str)
@pytest.mark.parametrize("name", CHOOSING)
def test_quotas_are_met_and_text_stays(name: str, sizes: list[int], ratio: float) -> None:
    io = prompt(sizes)
    pruner = create_visual_pruner(VisualPrunerConfig(True, name, ratio))
    pruned, report = pruner.prune(io)
    assert report.skipped is None
    kept = [len(span) for span in pruned.spans]
    if name in GLOBAL_BUDGET:
        assert sum(kept) == max(len(sizes), round((1 - ratio) * sum(sizes)))
        assert min(kept) >= 1
    else:
        assert kept == [pruner.config.quota(size) for size in sizes]
    assert report.visual_tokens_after == sum(kept)
    assert report.prompt_tokens_after == len(pruned) == len(io) - sum(sizes) + sum(kept)
    rows = pruned.token_ids - 100  # see make_io
    assert torch.equal(pruned.positions, io.positions[:, rows])
    assert torch.equal(pruned.importance, io.importance[rows])  # type: ignore[index, arg-type]
    text = set(range(len(io))) - {row for s in io.spans for row in range(s.start, s.end)}
    assert text <= set(rows.tolist())
    assert pruned.next_position == io.next_position


@pytest.mark.parametrize("tokens", [1, 15])
@pytest.mark.parametrize("name", _REGISTRY.names())
def test_tiny_prompts_are_left_alone(name: str, tokens: int) -> None:
    io = prompt([tokens])
    pruned, report = create_visual_pruner(VisualPrunerConfig(True, name, 0.5)).prune(io)
    assert pruned is io
    assert report.skipped == "fewer visual tokens than min_visual_tokens"


@pytest.mark.parametrize("name", CHOOSING)
def test_identical_tokens_are_pruned_the_same_way_every_time(name: str) -> None:
    io = prompt([20, 30])
    same = torch.ones_like(io.embeds)
    flat = replace(io, embeds=same, importance=torch.ones(len(io)))
    pruner = create_visual_pruner(VisualPrunerConfig(True, name, 0.5))
    first, second = (pruner.prune(flat)[1] for _ in range(2))
    assert first.kept_positions == second.kept_positions
    assert first.visual_tokens_after == 25


@pytest.mark.parametrize("name", CHOOSING)
def test_nan_embeddings_are_named(name: str) -> None:
    io = prompt([40])
    io.embeds[20, 1] = float("nan")
    with pytest.raises(RequestError, match="NaN or Inf, first at token 20"):
        create_visual_pruner(VisualPrunerConfig(True, name, 0.5)).prune(io)


@pytest.mark.parametrize("name", CHOOSING)
def test_only_those_that_need_importance_refuse_without(name: str) -> None:
    pruner = create_visual_pruner(VisualPrunerConfig(True, name, 0.5))
    bare = replace(prompt([40]), importance=None)
    if pruner.needs_importance:
        with pytest.raises(RequestError, match="edgevlm build --importance-layer -1"):
            pruner.prune(bare)
    else:
        assert pruner.prune(bare)[1].visual_tokens_after == 20
