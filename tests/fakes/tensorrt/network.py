"""Network definitions: tensors, layers, and the model that the layers mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from .enums import CausalMaskKind, DataType, LayerType, MoEActType
from .plugin_nodes import with_moe_layer

_LAYER_TYPES = {
    "Attention": LayerType.ATTENTION_INPUT,
    "TensorScatter": LayerType.KV_CACHE_UPDATE,
    "RotaryEmbedding": LayerType.ROTARY_EMBEDDING,
    "Cast": LayerType.CAST,
    "Constant": LayerType.CONSTANT,
    "MatMul": LayerType.MATRIX_MULTIPLY,
}


class BuildFailure(Exception):
    """A rule was broken; the builder logs it and returns nothing."""


@dataclass
class Tensor:
    name: str
    dtype: DataType | None = None
    shape: tuple[int, ...] = ()
    source: Tensor | None = None  # of a cast


class Attention:
    """The handle of one attention. Its ``key_value_lengths`` start unset, whatever ONNX said."""

    def __init__(self, causal: bool) -> None:
        self.causal_kind = CausalMaskKind.UPPER_LEFT if causal else CausalMaskKind.NONE
        self.key_value_lengths: Tensor | None = None
        self.decomposable = False


class Layer:
    """What ``get_layer`` returns: no subclass's properties, like the real bindings."""

    def __init__(self, kind: LayerType, name: str, inputs: list[Tensor | None]) -> None:
        self.type, self.name, self._inputs = kind, name, inputs
        self.outputs: list[Tensor] = []
        self.handle: Attention | None = None

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self.outputs))

    def get_input(self, index: int) -> Tensor | None:
        return self._inputs[index]

    def get_output(self, index: int) -> Tensor:
        return self.outputs[index]

    def set_input(self, index: int, tensor: Tensor) -> None:
        assert isinstance(tensor, Tensor)
        self._inputs[index] = tensor


class MoELayer(Layer):
    """A mixture of experts: hidden states, experts and scores ``[B,S,*]``; weights come later."""

    def set_gated_weights(
        self, gate: Tensor, up: Tensor, down: Tensor, activation: MoEActType
    ) -> None:
        assert activation is MoEActType.SILU
        self._inputs += [gate, up, down]


class AttentionInputLayer(Layer):
    @property
    def attention(self) -> Attention:
        assert self.handle is not None
        return self.handle


class Network:
    """Filled by the parser; :meth:`model` is what the layers compute, as ONNX."""

    def __init__(self, strongly_typed: bool) -> None:
        self.strongly_typed = strongly_typed
        self.source = onnx.ModelProto()
        self.inputs: list[Tensor] = []
        self.layers: list[Layer] = []

    num_inputs = property(lambda self: len(self.inputs))
    num_layers = property(lambda self: len(self.layers))

    def get_input(self, index: int) -> Tensor:
        return self.inputs[index]

    def get_layer(self, index: int) -> Layer:
        return self.layers[index]

    def add_cast(self, tensor: Tensor, dtype: DataType) -> Layer:
        layer = Layer(LayerType.CAST, "", [tensor])
        layer.outputs = [Tensor(f"cast({tensor.name})", dtype, tensor.shape, source=tensor)]
        self.layers.append(layer)
        return layer

    def add_moe(self, hidden: Tensor, experts: Tensor, scores: Tensor) -> MoELayer:
        layer = MoELayer(LayerType.MOE, "", [hidden, experts, scores])
        layer.outputs = [Tensor(f"moe({hidden.name})")]
        self.layers.append(layer)
        return layer

    def fill(self, model: onnx.ModelProto, computed: onnx.ModelProto) -> None:
        """Layers are those of ``model``; ``computed`` has standard operators for plugins."""
        self.source = computed
        for value in model.graph.input:
            kind = value.type.tensor_type
            shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
            self.inputs.append(Tensor(value.name, DataType(kind.elem_type), shape))
        tensors = {tensor.name: tensor for tensor in self.inputs}
        for node in model.graph.node:
            names = [n for i, n in enumerate(node.input) if (node.op_type, i) != ("Attention", 6)]
            inputs = [tensors.setdefault(n, Tensor(n)) if n else None for n in names]
            kind = _LAYER_TYPES.get(node.op_type, LayerType.ELEMENTWISE)
            if node.domain:
                kind = LayerType.PLUGIN_V3
            layer = Layer(kind, node.name, inputs)
            if node.op_type == "Attention":
                layer.handle = Attention(bool(_attribute(node, "is_causal")))
            layer.outputs = [tensors.setdefault(n, Tensor(n)) for n in node.output]
            self.layers.append(layer)

    def model(self) -> onnx.ModelProto:
        """Check the rules and express every attention as its layer says."""
        if not self.strongly_typed:
            raise BuildFailure("the network must be strongly typed")
        model = onnx.ModelProto()
        model.CopyFrom(self.source)
        handles = (layer.handle for layer in self.layers if layer.handle is not None)
        half = _is_half(model)
        for node, attention in zip(_nodes(model, "Attention"), handles, strict=True):
            if not half and not attention.decomposable:
                raise BuildFailure("Attention operation was not supported by a dedicated kernel.")
            _express(node, attention)
        self._check_caches(model)
        return self._with_moe_layers(model)

    def _with_moe_layers(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Experts where layers compute them, and what reads their results."""
        for layer in self.layers:
            if layer.type is LayerType.MOE:
                if layer.num_inputs != 6:
                    raise BuildFailure("the MoE layer has no weights")
                names = [layer.get_input(i).name for i in range(6)]  # type: ignore[union-attr]
                result = layer.outputs[0]
                readers = [
                    other.outputs[0].name
                    for other in self.layers
                    if any(other.get_input(i) is result for i in range(other.num_inputs))
                ]
                model = with_moe_layer(model, names, result.name, readers)
        return model

    def _check_caches(self, model: onnx.ModelProto) -> None:
        inputs = {tensor.name: tensor for tensor in self.inputs}
        outputs = {value.name for value in model.graph.output}
        for node in _nodes(model, "TensorScatter"):
            cache = inputs.get(node.input[0])
            if cache is None or cache.shape[2] < 1:
                raise BuildFailure(f"{node.input[0]} must be a network input of static length")
            if node.output[0] not in outputs:
                raise BuildFailure(f"{node.output[0]} must be a network output")

    def aliases(self) -> dict[str, str]:
        """Cache outputs and the inputs whose memory they share."""
        return {node.output[0]: node.input[0] for node in _nodes(self.source, "TensorScatter")}


def _express(node: Any, attention: Attention) -> None:
    kind, lengths = attention.causal_kind, attention.key_value_lengths
    if lengths is not None and lengths.dtype is not DataType.INT32:
        raise BuildFailure("key_value_lengths must be INT32")
    # ONNX aligns a causal mask bottom-right where there are lengths, top-left where there are not.
    if (kind is CausalMaskKind.LOWER_RIGHT) != (lengths is not None and kind.value > 0):
        raise BuildFailure(f"this stand-in cannot run {kind} with lengths {lengths}")
    source = lengths.source.name if lengths is not None and lengths.source else ""
    node.input[6] = source
    del node.attribute[:]
    node.attribute.append(onnx.helper.make_attribute("is_causal", int(kind.value > 0)))


def _nodes(model: onnx.ModelProto, op_type: str) -> Iterator[Any]:
    return (node for node in model.graph.node if node.op_type == op_type)


def _attribute(node: Any, name: str) -> Any:
    return onnx.helper.get_node_attr_value(node, name)


def _is_half(model: onnx.ModelProto) -> bool:
    kinds = {value.type.tensor_type.elem_type for value in model.graph.input}
    return bool(kinds & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
