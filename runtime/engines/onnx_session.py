"""An ONNX Runtime session whose inputs and outputs are torch tensors, bound by address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from ...core import EngineError
from ...models import Checkpoint
from ...models.onnx_weights import add_weights

CPU = torch.device("cpu")
MODEL_NAME = "model.onnx"
_NUMPY_TYPES = {
    torch.float32: np.float32,
    torch.float16: np.float16,
    torch.int64: np.int64,
    torch.bool: np.bool_,
}


class OnnxSession:
    """Runs ``directory/model.onnx`` on the CPU, its weights mapped from ``checkpoint``.

    Raises:
        EngineError: ONNX Runtime cannot load the model.
    """

    def __init__(self, directory: Path, checkpoint: Checkpoint) -> None:
        model = directory / MODEL_NAME
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Two sessions and torch share the cores: threads that spin while they wait slow the others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Sessions read these weights for as long as they live.
        self._weights = add_weights(options, model, checkpoint)
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            reason = " ".join(str(error).split())
            raise EngineError(f"{model}: ONNX Runtime cannot load it: {reason}") from None

    def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Compute ``outputs`` in place from ``inputs``.

        A tensor that appears in both, as a KV cache does, is updated where it is. All tensors must
        be contiguous and on the CPU.
        """
        binding = self._session.io_binding()
        for name, tensor in inputs.items():
            binding.bind_input(name, "cpu", 0, *_place(tensor))
        for name, tensor in outputs.items():
            binding.bind_output(name, "cpu", 0, *_place(tensor))
        self._session.run_with_iobinding(binding)


def _place(tensor: Tensor) -> tuple[type, list[int], int]:
    """Element type, shape and address of a tensor."""
    assert tensor.is_contiguous() and tensor.device.type == "cpu"
    return _NUMPY_TYPES[tensor.dtype], list(tensor.shape), tensor.data_ptr()
