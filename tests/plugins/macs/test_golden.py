"""Known results, computed by hand."""

from __future__ import annotations

import pytest
import torch

from edgevlm.plugins.macs import Limited, MacsConfig, MacsReport, expanded_drop, token_drop
from edgevlm.plugins.macs.entropy import UNIT, feature_entropy, weight_units, z_scores
from edgevlm.plugins.macs.reference import limit

P = torch.tensor(
    [
        [0.5, 0.3, 0.15, 0.05],
        [0.6, 0.05, 0.3, 0.05],
        [0.4, 0.1, 0.2, 0.3],
        [0.7, 0.1, 0.15, 0.05],
        [0.35, 0.3, 0.3, 0.05],
        [0.1, 0.2, 0.3, 0.4],
    ]
)
IDS = torch.tensor([[0, 1], [0, 2], [0, 3], [0, 2], [0, 1], [3, 2]])
WEIGHTS = P.gather(1, IDS)
ROWS = torch.ones(6, dtype=torch.bool)
VISUAL = torch.arange(6) < 4
GROUPS = torch.tensor([1.0, -1.0, 0.0, 0.0])
UNITS = (torch.tensor([0.8, 0.6, 0.7, 0.5, 1.0, 1.0]) * UNIT + 0.5).floor().long()


def chosen(found: Limited) -> list[set[int]]:
    return [{i for i in row if i < 4} for row in found.expert_ids.tolist()]


def drop(method: str, factor: float, devices: int = 1) -> Limited:
    config = MacsConfig(method=method, capacity_factor=factor, devices=devices)
    run = expanded_drop if method == "expanded_drop" else token_drop
    return run(config, P, IDS, WEIGHTS, ROWS, VISUAL)


@pytest.mark.parametrize(
    ("factor", "expected", "load"),
    [
        (1.0, [{0, 1}, {0, 2}, {3}, {0, 2}, {1}, {2, 3}], 3),
        (0.6, [{1}, {0, 2}, {3}, {0}, {1}, {2, 3}], 2),
    ],
)
def test_token_drop(factor, expected, load) -> None:
    apart = drop("token_drop", factor)
    config = MacsConfig(method="token_drop", capacity_factor=factor)
    units = torch.full((6,), UNIT)
    same = limit(P, IDS, WEIGHTS, ROWS, VISUAL, units, GROUPS, config.settings())
    for found in (apart, same):
        assert chosen(found) == expected
        report = MacsReport.read(found.report)
        assert report.raw_after == load and report.raw_before == 5


def test_expanded_drop() -> None:
    half = drop("expanded_drop", 1.0, devices=2)
    assert chosen(half) == [{0, 1}, {0, 2}, {3}, {0, 2}, {1}, {1, 2, 3}]
    assert half.expert_weights[5, -1] == pytest.approx(0.2)
    everywhere = drop("expanded_drop", 1.0)
    assert chosen(everywhere) == [{0, 1, 3}, {0, 2}, {3}, {0}, {1, 2}, {1, 2, 3}]


def macs(**options: object) -> Limited:
    values = {"capacity_factor": 0.6, "gain": 1.0, "devices": 2, "keep_top1_text": False}
    config = MacsConfig(**{**values, **options})
    return limit(P, IDS, WEIGHTS, ROWS, VISUAL, UNITS, GROUPS, config.settings())


def test_macs() -> None:
    found = macs()
    assert chosen(found) == [{0, 1}, {0, 2}, {1, 3}, {0}, set(), {2, 3}]
    assert found.expert_ids[2].tolist() == [1, 3]  # in the slot of expert 0
    assert found.expert_weights[2, 0] == pytest.approx(0.1)
    report = MacsReport.read(found.report)
    assert report.visual_ratio == pytest.approx(0.565217, abs=1e-5)
    assert report.capacity_most == pytest.approx(1.917391, abs=1e-4)
    assert report.capacity_least == pytest.approx(1.682609, abs=1e-4)
    assert report.effective_after == pytest.approx(1.9, abs=1e-4)
    assert (report.rerouted, report.dropped_visual, report.dropped_text) == (1, 1, 2)
    assert report.lost_rows == 1 and report.over_capacity == 0


def test_effective_basis() -> None:
    report = MacsReport.read(macs(capacity_basis="effective", gain=0.0).report)
    assert report.capacity_least == report.capacity_most == pytest.approx(1.38, abs=1e-4)


def test_text_keeps_its_first_expert() -> None:
    found = macs(keep_top1_text=True)
    assert {0} <= chosen(found)[4] and {3} <= chosen(found)[5]


def test_weights_of_the_original() -> None:
    assert macs(rerouted_weight="original").expert_weights[2, 0] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("sensitivity", "expected"),
    [
        (1.0, [0.274803, 0.523997, 0.830885, 0.327925]),
        (2.0, [0.125562, 0.547883, 0.960221, 0.192295]),
    ],
)
def test_semantic_weights(sensitivity, expected) -> None:
    z = torch.tensor([[0.0, 0, 0, 0], [2, 0, 0, 0], [4, 0, 0, 0], [1, 1, 0, 0], [9, 0, 0, 0]])
    visual = torch.arange(5) < 4
    entropy = feature_entropy(z)
    assert entropy[:4].tolist() == pytest.approx([1.386294, 0.918284, 0.26183, 1.27535], abs=1e-5)
    scores = z_scores(entropy, visual, torch.zeros(5, dtype=torch.int64), torch.tensor(0.0))
    wanted = [0.97039, -0.09606, -1.591914, 0.717583, 0.0]
    assert scores.tolist() == pytest.approx(wanted, abs=1e-4)
    units = weight_units(scores, visual, torch.tensor(sensitivity))
    assert (units / UNIT).tolist() == pytest.approx([*expected, 1.0], abs=3e-5)
