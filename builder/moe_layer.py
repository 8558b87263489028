"""``MoeExperts`` as TensorRT's own layer for a mixture of experts.

The parser is given nodes that prepare what the layer takes and pass the rows on; afterwards the
layer is put between the two, through the network's interface. (The parser has an operator for it,
``TRT_MoE``, but its inputs and attributes are not documented.)

The layer takes ``[B,S,H]``. Every row goes in as a sequence of its own, for the documentation says
that its performance is limited beyond 16 tokens of one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx.helper as oh

from ..core import EngineError
from .onnx_functions import Site

_ACTIVATIONS, _WEIGHTS = ("hidden", "ids", "weights"), ("gate", "up", "down")


def moe_layer_nodes(node: onnx.NodeProto, site: Site) -> list[onnx.NodeProto]:
    """Nodes for ``MoeExperts(hidden, expert_ids, expert_weights, gate_up, down)``.

    A dropped slot, whose id is N, becomes one of expert 0 with weight 0.
    """
    hidden, ids, weights, gate_up, down = node.input
    name = _names(node)
    return [
        oh.make_node("Constant", [], [name("experts")], value_int=site.sizes["N"]),
        oh.make_node("Constant", [], [name("first")], value_int=0),
        oh.make_node("Constant", [], [name("nothing_wide")], value_float=0.0),
        oh.make_node("CastLike", [name("nothing_wide"), weights], [name("nothing")]),
        oh.make_node("Constant", [], [name("axis")], value_ints=[1]),
        oh.make_node("Less", [ids, name("experts")], [name("kept")]),
        oh.make_node("Where", [name("kept"), ids, name("first")], [name("kept_ids")]),
        oh.make_node("Cast", [name("kept_ids")], [name("narrow_ids")], to=onnx.TensorProto.INT32),
        oh.make_node("Where", [name("kept"), weights, name("nothing")], [name("kept_weights")]),
        oh.make_node("Unsqueeze", [hidden, name("axis")], [name("hidden")]),
        oh.make_node("Unsqueeze", [name("narrow_ids"), name("axis")], [name("ids")]),
        oh.make_node("Unsqueeze", [name("kept_weights"), name("axis")], [name("weights")]),
        oh.make_node("Split", [gate_up], [name("gate"), name("up")], axis=2, num_outputs=2),
        # The parser makes a tensor of a weight only where a layer reads it.
        oh.make_node("Split", [down], [name("down")], axis=2, num_outputs=1),
        oh.make_node(
            "Squeeze", [name("hidden"), name("axis")], [node.output[0]], name=name("result")
        ),
    ]


def finish_moe_layer(definition: Any, site: Site, node: onnx.NodeProto) -> None:
    """Add the layer for ``node`` and let its result take the place of the rows.

    Raises:
        EngineError: the library refuses.
    """
    name = _names(node)
    wanted = {name(key) for key in (*_ACTIVATIONS, *_WEIGHTS)}
    tensors = {tensor.name: tensor for tensor in _tensors(definition) if tensor.name in wanted}
    missing = wanted - set(tensors)
    if missing:
        raise EngineError(f"the parsed network lacks {', '.join(sorted(missing))}")
    layer = definition.add_moe(*(tensors[name(key)] for key in _ACTIVATIONS))
    if layer is None:
        raise EngineError("TensorRT cannot add its layer for a mixture of experts")
    weights = (tensors[name(key)] for key in _WEIGHTS)
    layer.set_gated_weights(*weights, site.trt.MoEActType.SILU)
    for reader in map(definition.get_layer, range(definition.num_layers)):
        results = map(reader.get_output, range(reader.num_outputs))
        if node.output[0] in {tensor.name for tensor in results}:
            reader.set_input(0, layer.get_output(0))


def _tensors(definition: Any) -> Iterator[Any]:
    for layer in map(definition.get_layer, range(definition.num_layers)):
        yield from map(layer.get_output, range(layer.num_outputs))


def _names(node: onnx.NodeProto) -> Callable[[str], str]:
    return lambda key: f"{node.output[0]}.{key}"
