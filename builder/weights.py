"""Point a graph's initializers at the bytes of a checkpoint."""

from __future__ import annotations

from typing import Any

import onnx
import torch

from ..models.checkpoint import Checkpoint, is_exchanged
from ..models.onnx_weights import ONNX_TYPES


def bind_weights(
    graph: onnx.GraphProto, network: str, checkpoint: Checkpoint, dtype: torch.dtype
) -> None:
    """Describe every initializer as (file, offset, length) in ``checkpoint``, in place.

    Where the checkpoint's dtype is not ``dtype``, a Cast follows the initializer, and a Transpose
    where experts are stored with two axes exchanged. They read constants, so a backend computes
    them once, when it loads the graph; no converted copy is stored.

    Raises:
        CheckpointError: a weight is missing or has the wrong shape.
    """
    added: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}

    def follow(name: str, kind: str, **attributes: Any) -> None:
        before = renamed.get(name, name)
        renamed[name] = f"{before}.{kind.lower()}"
        node = onnx.helper.make_node(
            kind, [before], [renamed[name]], name=renamed[name], **attributes
        )
        added.append(node)

    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue  # a constant of the graph itself
        shape = tuple(tensor.dims)
        info = checkpoint.weight(network, tensor.name, shape)
        place = {"location": info.file, "offset": info.offset, "length": info.nbytes}
        tensor.data_type = ONNX_TYPES[info.dtype]
        tensor.dims[:] = info.shape
        del tensor.external_data[:]
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        if info.dtype is not dtype:
            follow(tensor.name, "Cast", to=ONNX_TYPES[dtype])
        if is_exchanged(info, shape):
            follow(tensor.name, "Transpose", perm=[0, 2, 1])
    nodes = list(graph.node)
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    del graph.node[:]
    graph.node.extend(added + nodes)
