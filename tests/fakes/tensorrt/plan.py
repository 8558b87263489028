"""Plans: a header and the model, and how its tensors are run through ONNX Runtime."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

_MAGIC = b"FAKEPLAN"
_TORCH = {
    onnx.TensorProto.FLOAT: torch.float32,
    onnx.TensorProto.FLOAT16: torch.float16,
    onnx.TensorProto.BFLOAT16: torch.bfloat16,
    onnx.TensorProto.INT64: torch.int64,
    onnx.TensorProto.BOOL: torch.bool,
}
_NUMPY = {
    torch.float32: np.float32,
    torch.float16: np.float16,
    torch.int64: np.int64,
    torch.bool: np.bool_,
}


@dataclass(frozen=True)
class Plan:
    library: str
    version: str
    capabilities: list[str]
    profiles: list[Any]
    aliases: dict[str, str]
    model: bytes

    def to_bytes(self) -> bytes:
        fields = asdict(self)
        del fields["model"]
        header = json.dumps(fields).encode()
        return _MAGIC + len(header).to_bytes(8, "little") + header + self.model

    @classmethod
    def from_bytes(cls, data: bytes) -> Plan | None:
        if not data.startswith(_MAGIC):
            return None
        end = 16 + int.from_bytes(data[8:16], "little")
        return cls(**json.loads(data[16:end]), model=data[end:])


@dataclass(frozen=True)
class Port:
    """One input or output."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]


class Executable:
    """A model over raw addresses, with bfloat16 computed in float32: the CPU has no kernels."""

    def __init__(self, data: bytes) -> None:
        model = onnx.load_from_string(data)
        self.inputs = [_port(value) for value in model.graph.input]
        self.outputs = [_port(value) for value in model.graph.output]
        _widen(model)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(self, shapes: Mapping[str, tuple[int, ...]], addresses: Mapping[str, int]) -> None:
        """Compute every output at its address."""
        binding = self._session.io_binding()
        at: dict[int, torch.Tensor] = {}  # one buffer per address, so aliases stay aliases
        back: list[tuple[torch.Tensor, torch.Tensor]] = []
        symbols: dict[str, int] = {}
        for port in self.inputs:
            shape = shapes[port.name]
            symbols |= _symbols(port, shape)
            address = addresses[port.name]
            view = at.setdefault(address, _wide(_view(address, port, shape)))
            binding.bind_input(port.name, "cpu", 0, _NUMPY[view.dtype], shape, view.data_ptr())
        for port in self.outputs:
            shape = tuple(_resolve(size, symbols) for size in port.shape)
            address = addresses[port.name]
            memory = _view(address, port, shape)
            view = at.setdefault(address, _wide(memory))
            binding.bind_output(port.name, "cpu", 0, _NUMPY[view.dtype], shape, view.data_ptr())
            if view.dtype is not port.dtype:
                back.append((memory, view))
        self._session.run_with_iobinding(binding)
        for memory, view in back:
            memory.copy_(view)


def _symbols(port: Port, shape: tuple[int, ...]) -> dict[str, int]:
    """``"batch"`` or ``"4*visual_tokens"``, and what it was called with."""
    named = [(s, n) for s, n in zip(port.shape, shape, strict=True) if isinstance(s, str)]
    parts = [(*s.rpartition("*")[::2], n) for s, n in named]
    return {name: n // int(factor or 1) for factor, name, n in parts}


def _resolve(size: int | str, symbols: dict[str, int]) -> int:
    if isinstance(size, int):
        return size
    factor, _, name = size.rpartition("*")
    return int(factor or 1) * symbols[name]


def _view(address: int, port: Port, shape: tuple[int, ...]) -> torch.Tensor:
    count = math.prod(shape)
    buffer = (ctypes.c_char * (count * port.dtype.itemsize)).from_address(address)
    return torch.frombuffer(buffer, dtype=port.dtype, count=count).view(shape)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype is torch.bfloat16 else tensor


def _port(value: Any) -> Port:
    kind = value.type.tensor_type
    sizes = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim)
    return Port(value.name, _TORCH[kind.elem_type], sizes)


def _widen(model: onnx.ModelProto) -> None:
    narrow, wide = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == narrow:
            value.type.tensor_type.elem_type = wide
    tensors = list(model.graph.initializer)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == narrow:
                attribute.i = wide
            if attribute.type == onnx.AttributeProto.TENSOR:
                tensors.append(attribute.t)
    for tensor in tensors:
        if tensor.data_type == narrow:
            values = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            name = tensor.name
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, name))
