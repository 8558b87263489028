"""Products in buffers of fixed size."""

from __future__ import annotations

import pytest
import torch

from edgevlm.plugins.experts import moe_experts
from edgevlm.plugins.macs import (
    MacsConfig,
    MacsReport,
    guaranteed_tokens,
    macs_capacity,
    padded_experts,
)

from .cases import Case, make_case


def weights(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    size = case.hidden.shape[1]
    gate_up = torch.randn(case.experts, size, 10, generator=generator)
    return gate_up, torch.randn(case.experts, 5, size, generator=generator)


@pytest.mark.parametrize("rows", [1, 9, 70])
def test_with_room_for_all_it_is_the_ragged_product(rows: int) -> None:
    case = make_case(rows, rows, 6, 3)
    case.ids[::3, 1] = 6
    found = padded_experts(case.hidden, case.ids, case.weights, *weights(case), rows)
    expected = moe_experts(case.hidden, case.ids, case.weights, *weights(case))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_rows_without_a_place_go_without_the_expert() -> None:
    case = make_case(0, 5, 4, 1)
    ids = torch.tensor([[2], [2], [1], [2], [4]])
    found = padded_experts(case.hidden, ids, case.weights, *weights(case), 2)
    ids[3] = 4
    expected = moe_experts(case.hidden, ids, case.weights, *weights(case))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "config",
    [
        MacsConfig(method="token_drop", capacity_factor=0.7),
        MacsConfig(capacity_factor=2.0, token_limit=1.1, keep_top1_text=False),
        MacsConfig(capacity_factor=0.5),
    ],
)
def test_the_guarantee_holds(config: MacsConfig) -> None:
    case = make_case(1, 90, 8, 2)
    found = macs_capacity(*case.inputs, config.settings())
    most = guaranteed_tokens(config, 90, 2, 8)
    assert MacsReport.read(found.report).raw_after <= most
    assert most < 90 or config.keep_top1_text
    given = (case.hidden, found.expert_ids, found.expert_weights, *weights(case))
    torch.testing.assert_close(
        padded_experts(*given, most), moe_experts(*given), rtol=1e-4, atol=1e-5
    )
