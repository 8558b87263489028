"""The reference against fp64, and against ``transformers``."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3_vl_moe.configuration_qwen3_vl_moe import Qwen3VLMoeTextConfig
from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import Qwen3VLMoeTextExperts

from edgevlm.plugins.experts import grouped_experts, moe_experts

from .cases import Shape, assert_near, expected, make


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("distinct", [True, False])
def test_against_fp64(dtype: torch.dtype, distinct: bool) -> None:
    inputs = make(Shape(11), dtype, drops=0.2, distinct=distinct)
    found = moe_experts(*inputs)
    assert found.dtype == dtype
    assert_near(found, expected(*inputs))


def test_against_transformers() -> None:
    shape = Shape(9)
    hidden, ids, weights, gate_up, down = make(shape, torch.float32)
    config = Qwen3VLMoeTextConfig(
        num_experts=shape.experts,
        hidden_size=shape.hidden,
        moe_intermediate_size=shape.width,
        num_experts_per_tok=shape.top_k,
        hidden_act="silu",
    )
    config._experts_implementation = "eager"
    theirs = Qwen3VLMoeTextExperts(config)
    theirs.gate_up_proj.data, theirs.down_proj.data = gate_up.mT, down.mT
    with torch.no_grad():
        wanted = theirs(hidden, ids, weights)
    torch.testing.assert_close(moe_experts(hidden, ids, weights, gate_up, down), wanted)


def test_no_rows() -> None:
    hidden, ids, weights, gate_up, down = make(Shape(1), torch.float32)
    assert moe_experts(hidden[:0], ids[:0], weights[:0], gate_up, down).shape == (0, 24)


def test_without_a_gpu_the_reference_is_used() -> None:
    inputs = make(Shape(5), torch.float32, drops=0.3)
    assert torch.equal(grouped_experts(*inputs), moe_experts(*inputs))
    x = torch.ones(5, 24)
    assert grouped_experts(*inputs, add_to=x) is x
    assert torch.equal(x, 1 + moe_experts(*inputs))
