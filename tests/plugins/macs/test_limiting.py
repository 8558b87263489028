"""What the torch backend calls."""

from __future__ import annotations

import pytest
import torch

from edgevlm.models import Routing
from edgevlm.plugins.macs import MacsConfig, MacsReport, limited_routing

from .cases import make_case


@pytest.mark.parametrize("method", ["off", "macs", "token_drop", "expanded_drop"])
def test_every_method(method: str) -> None:
    case = make_case(2, 60, 8, 2)
    routing = Routing(case.probabilities, case.ids, case.weights)
    config = MacsConfig(method=method, capacity_factor=0.6, devices=2, device=1)
    found, report = limited_routing(
        config, case.hidden, routing, case.rows, case.visual, case.groups
    )
    assert torch.equal(found.ids[case.rows], case.ids[case.rows]) == (method == "off")
    slots = 2 + (4 if method == "expanded_drop" else 0)
    assert found.ids.shape == found.weights.shape == (60, slots)
    extra = found.ids[:, 2:]
    assert ((extra >= 4) & (extra <= 8)).all()
    entries = MacsReport.read(report).summary(2, 8)
    assert entries["raw_imbalance_after"] <= entries["raw_imbalance_before"]
