"""The kernels against the reference, in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from edgevlm.plugins.macs import MacsConfig
from edgevlm.plugins.macs.entropy import feature_entropy
from edgevlm.plugins.macs.kernels.entropy import row_entropy
from edgevlm.plugins.macs.kernels.macs import LAUNCHES, kernel_macs, prepare
from edgevlm.plugins.macs.kernels.weights import weigh
from edgevlm.plugins.macs.reference import _taking_part, _weights, limit

from ..cases import Case, make_case

MIXED = make_case(0, 90, 11, 3, present=0.9)
TIES = make_case(1, 130, 6, 2, visual=0.8, ties=True)
TEXT = make_case(2, 25, 4, 2, visual=0.0)
IMAGES = make_case(3, 40, 16, 4, visual=1.0, dtype=torch.float16)
ONE = make_case(4, 1, 4, 1, visual=1.0)
SINGLE = make_case(8, 20, 1, 1)
MANY = make_case(5, 150, 40, 3)  # experts, so that few pairs are in each other's way


def compare(case: Case, config: MacsConfig, similarity: torch.Tensor | None = None) -> None:
    settings = config.settings()
    work = prepare(*case.inputs, settings, similarity)
    work.preferences.fill_(1)  # what memory may hold
    weigh(work)
    for launch in LAUNCHES:
        launch(work)
    rows, visual = _taking_part(case.rows, case.visual, settings)
    units = work.units.long()
    # Sums of entropies in another order may round a weight otherwise, and no more.
    assert (units - _weights(case.hidden, visual, settings))[rows].abs().le(2).all()
    _, *choice, _, _, groups = case.inputs
    expected = limit(*choice, rows, visual, units, groups, settings, similarity)
    assert torch.equal(work.moved, expected.expert_ids)
    tolerance = 1e-3 if case.weights.dtype == torch.float16 else 1e-6
    torch.testing.assert_close(work.new_weights, expected.expert_weights, rtol=0, atol=tolerance)
    torch.testing.assert_close(work.report, expected.report, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("case", "config"),
    [
        (MIXED, MacsConfig(capacity_factor=0.6)),
        (MIXED, MacsConfig(capacity_factor=0.7, devices=3, renormalize=True, order="text_first")),
        (MIXED, MacsConfig(method="token_drop", capacity_factor=0.6)),
        (MIXED, MacsConfig(method="off")),
        (TIES, MacsConfig(capacity_factor=0.5, zscore_scope="image", order="weighted_score")),
        (TIES, MacsConfig(token_limit=0.8, keep_top1_text=False, reroute_threshold=0.5)),
        (TIES, MacsConfig(capacity_factor=0.4, locality="source", devices=2, device=1)),
        (TEXT, MacsConfig(capacity_factor=0.4)),
        (TEXT, MacsConfig(capacity_factor=0.4, disable_when_text_only=True)),
        (IMAGES, MacsConfig(capacity_basis="effective", gain=2.0, rerouted_weight="original")),
        (IMAGES, MacsConfig(reroute=False, sensitivity=30.0)),
        (ONE, MacsConfig()),
        (SINGLE, MacsConfig(capacity_factor=0.5)),
        (MANY, MacsConfig(gain=0.0)),
        (MANY, MacsConfig(capacity_factor=0.7, devices=4, reroute_threshold=0.2)),
    ],
)
def test_decisions(case: Case, config: MacsConfig) -> None:
    compare(case, config)


@pytest.mark.parametrize(
    "config",
    [
        MacsConfig(capacity_factor=0.5, similarity="expert"),
        MacsConfig(capacity_factor=0.6, similarity="expert", reroute_threshold=0.3, devices=2),
        MacsConfig(capacity_factor=0.6),
    ],
)
def test_similarity_of_experts(config: MacsConfig) -> None:
    similarity = torch.rand(11, 11, generator=torch.Generator().manual_seed(0)) - 0.5
    compare(MIXED, config, similarity)


def test_reading_ahead_of_the_end_finds_nobody() -> None:
    case = make_case(0, 60, 12, 3)
    case.rows[0] = False  # so that its list is not in the queue
    compare(case, MacsConfig(capacity_factor=0.6))


def test_whole_call_and_small_ids() -> None:
    case = make_case(7, 20, 6, 2)
    settings = MacsConfig(capacity_factor=0.6).settings()
    hidden, probabilities, ids, *rest = case.inputs
    wide = kernel_macs(prepare(*case.inputs, settings))
    narrow = kernel_macs(prepare(hidden, probabilities, ids.int(), *rest, settings))
    assert narrow.expert_ids.dtype == torch.int32
    assert torch.equal(wide.expert_ids, narrow.expert_ids.long())
    assert torch.equal(wide.report, narrow.report)


@pytest.mark.parametrize("size", [1, 33, 5000])
def test_entropy(size: int) -> None:
    hidden = torch.randn(3, size, generator=torch.Generator().manual_seed(size)) * 5
    everyone = torch.ones(3, dtype=torch.bool)
    found = row_entropy(hidden, everyone, torch.tensor([True, False, True]))
    expected = feature_entropy(hidden)
    expected[1] = 0
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
