"""Both networks against ``transformers`` on a scaled-down random model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from edgevlm.models import (
    TextModel,
    VisionTower,
    mrope_cos_sin,
    position_interpolation,
    rotate_half_split,
    vision_cos_sin,
)
from tests.models.plain_experts import PlainExperts
from tests.models.random_model import EXPERTS, IMAGE, RandomModel, make_random_model


class PlainOperators(PlainExperts):
    """Attention over the sequence itself, causal or not; every row where the router sends it."""

    rotate = staticmethod(rotate_half_split)

    def __init__(self, causal: bool) -> None:
        self._causal = causal

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=self._causal, enable_gqa=True)


@pytest.fixture(scope="module", params=["dense", "experts"])
def model(request: pytest.FixtureRequest) -> RandomModel:
    return make_random_model(experts=EXPERTS if request.param == "experts" else None)


def load(network: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    network.load_state_dict(state)
    return network.eval()


def encode(
    model: RandomModel, patches: Tensor, h: int, w: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    config = model.config.vision
    tower = load(VisionTower(config), model.vision_state())
    cos, sin = vision_cos_sin(h, w, config, torch.float32)
    indices, weights = position_interpolation(h, w, config)
    inputs = (patches, cos, sin, indices, weights)
    embeds, planes = tower(*(x[None] for x in inputs), PlainOperators(causal=False))
    return embeds[0], tuple(plane[0] for plane in planes)


@pytest.mark.parametrize("grid", [(2, 2), (6, 8), (16, 2), (10, 20)])
@torch.inference_mode()
def test_vision_tower_equals_transformers(model: RandomModel, grid: tuple[int, int]) -> None:
    h, w = grid
    patches = torch.randn(h * w, 1536)
    expected = model.reference.model.visual(patches, torch.tensor([[1, h, w]]))
    embeds, planes = encode(model, patches, h, w)
    torch.testing.assert_close(embeds, expected.pooler_output, atol=1e-4, rtol=1e-4)
    assert len(planes) == len(expected.deepstack_features) == 3
    for ours, theirs in zip(planes, expected.deepstack_features, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_text_model_with_deepstack_gqa_and_interleaved_mrope_equals_transformers(
    model: RandomModel,
) -> None:
    h, w = 6, 10
    count = h * w // 4
    patches = torch.randn(h * w, 1536)
    ids = torch.tensor([[1, 2, 92, *[IMAGE] * count, 93, 5, 6]])
    kinds = (ids == IMAGE).int()
    grid = torch.tensor([[1, h, w]])
    expected = model.reference(
        input_ids=ids, pixel_values=patches, image_grid_thw=grid, mm_token_type_ids=kinds
    ).logits
    positions, _ = model.reference.model.get_rope_index(ids, kinds, grid)

    features, planes = encode(model, patches, h, w)
    embeds = model.embedding_table()[ids]
    embeds[0, 3 : 3 + count] = features
    deepstack = [torch.zeros_like(embeds) for _ in planes]
    for full, plane in zip(deepstack, planes, strict=True):
        full[0, 3 : 3 + count] = plane
    cos, sin = mrope_cos_sin(positions, model.config.text, torch.float32)
    text = load(TextModel(model.config.text), model.text_state())
    for row in (0, 7, ids.shape[1] - 1):
        logits = text(embeds, cos, sin, deepstack, torch.tensor([row]), PlainOperators(True))
        torch.testing.assert_close(logits, expected[:, row], atol=1e-4, rtol=1e-4)
