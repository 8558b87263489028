"""One network of a checkpoint, as a build target receives it."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
import torch

from ..core.limits import EngineLimits
from ..core.manifest import edgevlm_version
from ..models.checkpoint import Checkpoint
from ..plugins.controls import CONTROLS, Control
from ..plugins.functions import DOMAIN, called_functions
from .contract import Contract, text_contract, vision_contract
from .text_graph import text_graph
from .trace import OPSET
from .vision_graph import vision_graph
from .weights import bind_weights

_IR_VERSION = 10  # the oldest that has every type and operator used here


@dataclass(frozen=True)
class Network:
    """``kind`` is ``"llm"`` or ``"visual"``; ``dtype`` is the engine's, by its torch name.

    ``dynamic_kv`` makes the KV capacity a symbol of the contract rather than ``max_kv_len``.
    ``importance_layer`` is the layer of the vision tower that outputs its queries and keys.
    ``routing`` names the controls that the language model's experts can be put under.
    """

    kind: str
    checkpoint: Checkpoint
    limits: EngineLimits
    dtype: str
    dynamic_kv: bool = False
    importance_layer: int | None = None
    routing: tuple[str, ...] = ()

    @property
    def controls(self) -> tuple[Control, ...]:
        """What ``routing`` means for this network's inputs and outputs."""
        moe = self.checkpoint.config.text.moe
        if self.kind != "llm" or moe is None:
            return ()
        return tuple(CONTROLS.get(name)(moe) for name in self.routing)

    @property
    def contract(self) -> Contract:
        """Inputs, outputs and shape profiles."""
        config = self.checkpoint.config
        if self.kind == "llm":
            return text_contract(
                config,
                self.limits,
                self.dtype,
                dynamic_kv=self.dynamic_kv,
                controls=self.controls,
            )
        importance = self.importance_layer is not None
        return vision_contract(config, self.limits, self.dtype, importance=importance)

    def onnx_model(self) -> onnx.ModelProto:
        """The network in the standard ONNX domain, and functions of our own that it calls.

        Each weight is external data: a file of the checkpoint (by its bare name), an offset and a
        length. :func:`~edgevlm.models.onnx_weights.external_weights` reads them back.

        Raises:
            CheckpointError: a weight is missing or has the wrong shape.
        """
        config, dtype = self.checkpoint.config, getattr(torch, self.dtype)
        if self.kind == "llm":
            graph = text_graph(config, self.contract, dtype, self.controls)
        else:
            graph = vision_graph(config.vision, self.contract, dtype, self.importance_layer)
        bind_weights(graph, self.kind, self.checkpoint, dtype)
        graph.name = self.kind
        functions = called_functions(graph)
        domains = [("", OPSET), *((DOMAIN, 1) for _ in functions[:1])]
        return onnx.helper.make_model(
            graph,
            functions=functions,
            opset_imports=[onnx.helper.make_opsetid(*domain) for domain in domains],
            ir_version=_IR_VERSION,
            producer_name="edgevlm",
            producer_version=edgevlm_version(),
        )
