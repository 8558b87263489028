"""The weights of an exported network, straight from the checkpoint's mapped files.

``model.onnx`` holds no weights: each initializer names a checkpoint file, an offset and a length.
A backend reads those bytes where they lie, through :class:`~edgevlm.models.checkpoint.Checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch

from ..core import EngineError
from .checkpoint import Checkpoint

if TYPE_CHECKING:
    import onnxruntime

ONNX_TYPES = {
    torch.float32: onnx.TensorProto.FLOAT,
    torch.float16: onnx.TensorProto.FLOAT16,
    torch.bfloat16: onnx.TensorProto.BFLOAT16,
}


@dataclass(frozen=True)
class ExternalWeight:
    """One initializer. ``data`` is a view of the mapped file; bfloat16 appears as uint16."""

    name: str
    onnx_type: int
    data: np.ndarray


def external_weights(model: Path, checkpoint: Checkpoint) -> Iterator[ExternalWeight]:
    """Yield the initializers of the ONNX file ``model`` that live in ``checkpoint``.

    Raises:
        EngineError: the checkpoint has no such bytes: it is not the one that was exported.
    """
    places = {(info.file, info.offset): info for info in checkpoint.tensors.values()}
    for tensor in onnx.load(model, load_external_data=False).graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entry = {item.key: item.value for item in tensor.external_data}
        info = places.get((entry["location"], int(entry["offset"])))
        if (
            info is None
            or info.nbytes != int(entry["length"])
            or ONNX_TYPES.get(info.dtype) != tensor.data_type
            or info.shape != tuple(tensor.dims)
        ):
            raise EngineError(
                f"{model}: {tensor.name} is not in {checkpoint.directory}; rebuild the engine"
                " from this checkpoint with `edgevlm build`"
            )
        view = checkpoint.tensor(info.name)
        data = view.view(torch.uint16) if view.dtype is torch.bfloat16 else view
        yield ExternalWeight(tensor.name, tensor.data_type, data.numpy())


def add_weights(
    options: onnxruntime.SessionOptions, model: Path, checkpoint: Checkpoint
) -> list[onnxruntime.OrtValue]:
    """Hand the weights of ``model`` to ONNX Runtime without a copy.

    Returns:
        The values, which must outlive every session made from ``options``.

    Raises:
        EngineError: see :func:`external_weights`.
    """
    from onnxruntime import OrtValue

    weights = list(external_weights(model, checkpoint))
    values = [OrtValue.ortvalue_from_numpy_with_onnx_type(w.data, w.onnx_type) for w in weights]
    options.add_external_initializers([w.name for w in weights], values)
    return values
