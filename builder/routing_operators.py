"""A mixture of experts as ONNX nodes: the functions of our own domain."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from ..models import Routing
from ..plugins.macs.report import ENTRIES


class RoutingOperators:
    """Nodes that route rows and compute their experts.

    Args:
        tensors: the graph's inputs by name, of which those in
            :mod:`edgevlm.plugins.controls` are used where they are there.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.results: dict[str, Tensor] = {}

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        if "sere_top_k" in self.tensors:
            routing = self._sere(routing, layer)
        if "macs_settings" in self.tensors:
            routing = self._macs(hidden, routing, layer)
        return routing

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        return torch.onnx.ops.symbolic(
            "edgevlm::MoeExperts",
            (hidden, routing.ids, routing.weights, gate_up, down),
            {},
            dtype=hidden.dtype,
            shape=hidden.shape,
            version=1,
        )

    def _sere(self, routing: Routing, layer: int) -> Routing:
        tensors = self.tensors
        ids, active = torch.onnx.ops.symbolic_multi_out(
            "edgevlm::SereRouting",
            (
                routing.ids,
                tensors[f"sere_similarity_{layer}"],
                tensors[f"sere_protected_{layer}"],
                tensors["decode_rows"].flatten(),
                tensors["sere_top_k"],
                tensors["sere_threshold"],
            ),
            {},
            dtypes=[torch.int64, torch.int64],
            shapes=[routing.ids.shape, (2,)],
            version=1,
        )
        self.results[f"sere_active_{layer}"] = active
        return dataclasses.replace(routing, ids=ids)

    def _macs(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        tensors, report = self.tensors, f"macs_report_{layer}"
        ids, weights, self.results[report] = torch.onnx.ops.symbolic_multi_out(
            "edgevlm::MacsCapacity",
            (
                hidden,
                routing.probabilities,
                routing.ids,
                routing.weights,
                tensors["prompt_rows"].flatten(),
                tensors["visual_rows"].flatten(),
                tensors[f"macs_groups_{layer}"],
                tensors["macs_settings"],
            ),
            {},
            dtypes=[torch.int64, routing.weights.dtype, torch.float32],
            shapes=[routing.ids.shape, routing.weights.shape, (len(ENTRIES),)],
            version=1,
        )
        return dataclasses.replace(routing, ids=ids, weights=weights)
