"""What plugins and the layer for experts compute, in standard ONNX, for networks that are run.

The kernels of plugins have tests of their own; here it matters that they stand in the right places.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx.helper as oh
import onnx.inliner

from edgevlm.plugins.functions import DOMAIN, FUNCTIONS

_STAGES = ("MoeExpertsPlan", "MoeExpertsGateUp", "MoeExpertsDown", "MoeExpertsCombine")


def computed(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the bodies of functions for their plugins."""
    made = {output: node for node in model.graph.node for output in node.output}
    nodes = []
    for node in model.graph.node:
        if node.op_type == _STAGES[-1]:
            nodes.append(_whole(node, made))
        elif node.op_type not in _STAGES:
            nodes.append(node)
    return _inlined(model, nodes)


def with_moe_layer(
    model: onnx.ModelProto, inputs: Sequence[str], result: str, readers: Sequence[str]
) -> onnx.ModelProto:
    """``model`` with the layer's experts; the first input of ``readers`` becomes its result.

    Args:
        inputs: hidden states, experts and scores ``[R,1,*]``, then the three weights.
        readers: outputs of the nodes that read the result.
    """
    hidden, experts, scores, gate, up, down = inputs

    def name(key: str) -> str:
        return f"{result}.{key}"

    own = [
        oh.make_node("Constant", [], [name("axis")], value_ints=[1]),
        oh.make_node("Squeeze", [hidden, name("axis")], [name("hidden")]),
        oh.make_node("Squeeze", [experts, name("axis")], [name("narrow")]),
        oh.make_node("Cast", [name("narrow")], [name("ids")], to=onnx.TensorProto.INT64),
        oh.make_node("Squeeze", [scores, name("axis")], [name("scores")]),
        oh.make_node("Concat", [gate, up], [name("gate_up")], axis=2),
        oh.make_node(
            "MoeExperts",
            [name("hidden"), name("ids"), name("scores"), name("gate_up"), down],
            [name("out")],
            domain=DOMAIN,
        ),
        oh.make_node("Unsqueeze", [name("out"), name("axis")], [result]),
    ]
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.output[0] in readers:
            nodes += own
            node.input[0] = result
        nodes.append(node)
    return _inlined(model, nodes)


def _whole(last: onnx.NodeProto, made: dict[str, onnx.NodeProto]) -> onnx.NodeProto:
    """The call that a chain of plugins stands for, found from its end."""
    down = made[last.input[0]]
    gate_up = made[down.input[0]]
    plan = made[gate_up.input[2]]
    assert (plan.op_type, gate_up.op_type, down.op_type) == _STAGES[:3]
    tables = list(plan.output)
    assert list(gate_up.input[2:]) == list(down.input[3:]) == tables
    assert plan.input[0] == last.input[1], "two stages go by different experts"
    inputs = [gate_up.input[0], plan.input[0], down.input[2], gate_up.input[1], down.input[1]]
    return oh.make_node("MoeExperts", inputs, list(last.output), domain=DOMAIN)


def _inlined(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    called = {node.op_type for node in nodes if node.domain == DOMAIN} & set(FUNCTIONS.names())
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:], found.functions[:]
    found.graph.node.extend(nodes)
    for node in found.graph.node:
        if node.op_type in called:
            del node.attribute[:]
    found.functions.extend(FUNCTIONS.get(name)() for name in sorted(called))
    return onnx.inliner.inline_local_functions(found)
