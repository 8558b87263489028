"""Point a graph's initializers at the bytes of a checkpoint."""

from __future__ import annotations

import onnx
import torch

from ..models.checkpoint import Checkpoint
from ..models.onnx_weights import ONNX_TYPES


def bind_weights(
    graph: onnx.GraphProto, network: str, checkpoint: Checkpoint, dtype: torch.dtype
) -> None:
    """Describe every initializer as (file, offset, length) in ``checkpoint``, in place.

    Where the checkpoint's dtype is not ``dtype``, a Cast follows the initializer. It reads a
    constant, so a backend computes it once, when it loads the graph; no converted copy is stored.

    Raises:
        CheckpointError: a weight is missing or has the wrong shape.
    """
    casts: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue  # a constant of the graph itself
        info = checkpoint.weight(network, tensor.name, tuple(tensor.dims))
        place = {"location": info.file, "offset": info.offset, "length": info.nbytes}
        tensor.data_type = ONNX_TYPES[info.dtype]
        del tensor.external_data[:]
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        if info.dtype is not dtype:
            renamed[tensor.name] = f"{tensor.name}.cast"
            casts.append(
                onnx.helper.make_node(
                    "Cast",
                    [tensor.name],
                    [renamed[tensor.name]],
                    name=f"{tensor.name}.cast",
                    to=ONNX_TYPES[dtype],
                )
            )
    nodes = list(graph.node)
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    del graph.node[:]
    graph.node.extend(casts + nodes)
