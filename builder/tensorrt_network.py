"""An exported ONNX graph as a TensorRT network: parsed, corrected, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from torch import Tensor

from ..core import EngineError
from .network import Network
from .onnx_functions import FunctionMapping, Site, apply_mappings
from .tensorrt_log import BuildLog

_LENGTHS_INPUT = 6  # of ONNX Attention: nonpad_kv_seqlen


@dataclass(frozen=True)
class ParsedNetwork:
    """``definition`` refers to the memory of ``parser`` and ``weights``: keep both with it."""

    definition: Any
    parser: Any
    weights: tuple[Tensor, ...]
    layers: dict[str, int]  # type name -> count
    plugin_sources: dict[str, str]  # source name -> SHA-256


def parse_network(
    trt: Any,
    builder: Any,
    log: BuildLog,
    network: Network,
    mappings: Mapping[str, FunctionMapping],
    capabilities: tuple[str, ...] = (),
) -> ParsedNetwork:
    """Parse ``network``, its weights read from the checkpoint's mapped files, and correct it.

    Args:
        mappings: of functions that are not to be compiled literally, for ``capabilities``.

    Raises:
        EngineError: the parser refuses the graph, or an input of it has no effect.
    """
    model = network.onnx_model()
    strongly_typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    definition = builder.create_network(0 if strongly_typed is None else 1 << int(strongly_typed))
    parser = trt.OnnxParser(definition, log.sink)
    applied = apply_mappings(mappings, model, Site(trt, capabilities, _sizes(network)))
    weights = _load(parser, model, network)
    if not weights or not parser.parse_model_proto():
        problems = [str(parser.get_error(i).desc()) for i in range(parser.num_errors)]
        reason = "; ".join(problems) or log.reason()
        raise EngineError(
            f"the ONNX parser refuses the {network.kind} network: {' '.join(reason.split())}"
        )
    applied.finish(definition)
    inputs = {t.name: t for t in map(definition.get_input, range(definition.num_inputs))}
    _rewrite_attention(trt, definition, inputs[_lengths_name(model)])
    _require_used(definition, inputs)
    layers = Counter(
        layer.type.name for layer in map(definition.get_layer, range(definition.num_layers))
    )
    return ParsedNetwork(definition, parser, weights, dict(layers), applied.sources)


def _sizes(network: Network) -> dict[str, int]:
    """By the symbols of the operators on experts."""
    moe = network.checkpoint.config.text.moe
    return {"N": moe.num_experts, "k": moe.top_k} if moe else {}


def _load(parser: Any, model: onnx.ModelProto, network: Network) -> tuple[Tensor, ...]:
    """Hand the graph and the addresses of its weights to the parser; no weight is copied."""
    if not parser.load_model_proto(model.SerializeToString()):
        return ()
    weights = []
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        info = network.checkpoint.weight(network.kind, tensor.name, tuple(tensor.dims))
        view = network.checkpoint.tensor(info.name)
        if not parser.load_initializer(tensor.name, view.data_ptr(), view.nbytes):
            return ()
        weights.append(view)
    return tuple(weights)


def _lengths_name(model: onnx.ModelProto) -> str:
    names = {n.input[_LENGTHS_INPUT] for n in model.graph.node if n.op_type == "Attention"}
    assert len(names) == 1, names
    return str(names.pop())


def _rewrite_attention(trt: Any, definition: Any, lengths: Any) -> None:
    """Give every attention its key lengths, and align causal ones bottom-right.

    The parser drops the lengths of an ONNX Attention and aligns its causal mask top-left: at
    decode, such an engine attends to slot 0 alone.
    """
    cast = definition.add_cast(lengths, trt.int32)
    cast.name = f"{lengths.name}.int32"
    for layer in map(definition.get_layer, range(definition.num_layers)):
        if layer.type != trt.LayerType.ATTENTION_INPUT:
            continue
        # get_layer returns the base class; the handle is reached through the real one.
        layer.__class__ = trt.IAttentionInputLayer
        attention = layer.attention
        if attention.causal_kind != trt.CausalMaskKind.NONE:
            attention.causal_kind = trt.CausalMaskKind.LOWER_RIGHT
        attention.key_value_lengths = cast.get_output(0)
        attention.decomposable = False  # no fused kernel: the build fails instead of crawling


def _require_used(definition: Any, inputs: dict[str, Any]) -> None:
    used: set[str] = set()
    for layer in map(definition.get_layer, range(definition.num_layers)):
        tensors = map(layer.get_input, range(layer.num_inputs))
        used.update(tensor.name for tensor in tensors if tensor is not None)
    unused = sorted(set(inputs) - used)
    if unused:
        raise EngineError(
            f"the TensorRT network ignores its input {', '.join(unused)}: the engine would answer"
            " wrongly; report this with the TensorRT version"
        )
