"""Replace each stand-in node of a graph by a copy of the block it stands for."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from .graph_operators import STAND_IN


def splice(outer: onnx.GraphProto, blocks: Sequence[onnx.GraphProto], prefix: str) -> None:
    """Inline ``blocks[i]`` for stand-in number ``i`` wherever ``outer`` has one, in place.

    Names inside copy ``i`` gain ``"{prefix}.{i}."``. A block's initializers are named like its
    parameters, so they end up with the names they have in the whole network. A stand-in may have
    only the first of the block's outputs.
    """
    nodes: list[onnx.NodeProto] = []
    for node in outer.node:
        if node.op_type != STAND_IN:
            nodes.append(node)
            continue
        index = onnx.helper.get_node_attr_value(node, "index")
        block, scope = blocks[index], f"{prefix}.{index}."
        names = {value.name: name for value, name in zip(block.input, node.input, strict=True)}
        names |= {value.name: name for value, name in zip(block.output, node.output, strict=False)}
        nodes.extend(_rename(inner, names, scope) for inner in block.node)
        for tensor in block.initializer:
            outer.initializer.add().CopyFrom(tensor)
            outer.initializer[-1].name = scope + tensor.name
    del outer.node[:]
    outer.node.extend(nodes)


def _rename(node: onnx.NodeProto, names: dict[str, str], scope: str) -> onnx.NodeProto:
    def outer_name(name: str) -> str:
        # An empty name is an absent optional input.
        return names.get(name, scope + name) if name else ""

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = scope + node.name
    copy.input[:] = map(outer_name, node.input)
    copy.output[:] = map(outer_name, node.output)
    return copy
