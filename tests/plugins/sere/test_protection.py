"""Which experts are protected."""

from __future__ import annotations

import pytest
import torch

from edgevlm.core import UsageError
from edgevlm.plugins.sere import protected_experts

from .test_reference import GOLDEN

MASS = torch.tensor([0.1, 0.4, 0.1, 0.1, 0.3])


@pytest.mark.parametrize(
    ("rule", "count", "expected"),
    [
        ("least-replaceable", 2, [1, 4]),  # best others: .377 .341 .341 .377 .311; 1 before 2
        ("least-replaceable", 1, [4]),
        ("routed-mass", 2, [1, 4]),
        ("routed-mass", 3, [0, 1, 4]),  # lowest id among equals
        ("union", 1, [1, 4]),
        ("union", 0, []),
        ("union", 5, [0, 1, 2, 3, 4]),
    ],
)
def test_rules(rule: str, count: int, expected: list[int]) -> None:
    found = protected_experts(GOLDEN, MASS, count, rule)
    assert found.dtype == torch.bool
    assert found.nonzero().flatten().tolist() == expected


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(UsageError, match=r"no rule 'luck'.*least-replaceable, routed-mass, union"):
        protected_experts(GOLDEN, MASS, 1, "luck")
