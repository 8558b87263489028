"""The benchmarks' imagined routing."""

from __future__ import annotations

import pytest
import torch

from edgevlm.benchmarks.synthetic_router import SyntheticRouter
from edgevlm.core import UsageError


def small(active: float) -> SyntheticRouter:
    return SyntheticRouter.calibrated(
        layers=8, experts=32, top_k=4, batch=24, active=active, seed=3
    )


@pytest.mark.parametrize("active", [20.0, 27.0])
def test_as_many_experts_are_active_as_asked_for(active: float) -> None:
    router = small(active)
    assert router.active(24) == pytest.approx(active, abs=0.5)
    assert router.active(1) == 4
    assert 4 < router.active(6) < active


def test_weights_fall_and_add_up_to_1() -> None:
    ids, weights = small(20.0).route(layer=2, rows=9, seed=5, dtype=torch.float16)
    assert ids.shape == weights.shape == (9, 4)
    assert all(len(set(row)) == 4 for row in ids.tolist())
    assert (weights.diff(dim=1) <= 0).all() and (weights > 0).all()
    torch.testing.assert_close(weights.float().sum(1), torch.ones(9), atol=2e-3, rtol=0)


def test_seeds_and_layers_are_apart() -> None:
    router = small(20.0)
    ids = router.route(0, 6, 1)[0]
    assert torch.equal(ids, router.route(0, 6, 1)[0])
    assert not torch.equal(ids, router.route(1, 6, 1)[0])
    assert not torch.equal(ids, router.route(0, 6, 2)[0])


@pytest.mark.parametrize(("active", "why"), [(2.0, "ask for more"), (32.5, "ask for fewer")])
def test_what_no_skew_gives(active: float, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        small(active)
