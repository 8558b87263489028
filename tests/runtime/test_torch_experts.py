"""What decides whether a captured step still holds."""

from __future__ import annotations

from dataclasses import replace

import torch

from edgevlm.plugins.macs.config import MacsConfig
from edgevlm.runtime.engines.routing import MacsControl, RoutingControl
from edgevlm.runtime.engines.torch_experts import ExpertHost
from tests.models.random_model import EXPERTS, make_random_model


def test_a_graph_holds_for_one_set_of_operations_only() -> None:
    host = ExpertHost(make_random_model(experts=EXPERTS).config.text, torch.device("cpu"))
    plain = MacsControl(MacsConfig(), torch.zeros(3, 6))
    alike = replace(plain, similarity=torch.ones(3, 6, 6))
    expanded = replace(plain, config=MacsConfig(method="expanded_drop"))
    variants = []
    for macs in (None, plain, alike, expanded):
        host.control(RoutingControl(macs=macs))
        variants.append(host.variant)
    assert len(set(variants)) == 4
    host.control(RoutingControl(macs=replace(plain, config=MacsConfig(capacity_factor=2.0))))
    assert host.variant == variants[1]  # numbers are in a tensor
