"""Experts as the router chooses them, for hosts of networks in tests."""

from __future__ import annotations

from torch import Tensor

from edgevlm.models import Routing
from edgevlm.plugins.experts.reference import moe_experts


class PlainExperts:
    """The part of a host that a mixture of experts needs."""

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        return routing

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        return moe_experts(hidden, routing.ids, routing.weights, gate_up, down)
