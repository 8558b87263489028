"""The ONNX Runtime target: a graph without weights, for any CPU."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

from ..core.manifest import Backend
from ..models.checkpoint import Checkpoint
from .network import Network
from .targets import Artifacts, WriteOptions, refuse_capabilities, targets

MODEL_NAME = "model.onnx"


class OnnxRuntimeTarget:
    """``model.onnx`` points into the checkpoint's weight files and repeats none of their bytes."""

    # The CPU provider has no bfloat16 matrix product or attention.
    dtypes = ("float32", "float16")
    # Its attention computes over the whole capacity and masks afterwards: a host that grows its
    # caches with the sequence decodes many times faster than one that allocates the maximum.
    dynamic_kv = True

    def default_dtype(self, checkpoint: Checkpoint) -> str:
        """``float32``: few CPUs compute in half precision, so there it is slower, not faster."""
        return "float32"

    def backend(self) -> Backend:
        return Backend("onnxruntime", onnxruntime.__version__)

    def compute_capabilities(self, requested: tuple[str, ...]) -> tuple[str, ...]:
        return refuse_capabilities("onnxruntime", requested)

    def write(self, network: Network, directory: Path, options: WriteOptions) -> Artifacts:
        (directory / MODEL_NAME).write_bytes(network.onnx_model().SerializeToString())
        return Artifacts(files=(MODEL_NAME,))


targets.register("onnxruntime")(OnnxRuntimeTarget())
