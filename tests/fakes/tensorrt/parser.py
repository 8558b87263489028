"""The ONNX parser."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import onnx
import onnx.inliner

from .enums import OnnxParserFlag, Severity
from .network import Network

_ITEM_SIZES = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.FLOAT16: 2, onnx.TensorProto.BFLOAT16: 2}


class _Error:
    def __init__(self, text: str) -> None:
        self._text = text

    def desc(self) -> str:
        return self._text


class OnnxParser:
    """Weights are loaded by address before parsing, and are read when it happens."""

    plugins: set[str] = set()  # names in the library's plugin registry  # noqa: RUF012

    def __init__(self, network: Network, logger: Any) -> None:
        self._network, self._logger = network, logger
        self._model: onnx.ModelProto | None = None
        self._loaded: dict[str, tuple[int, int]] = {}
        self._errors: list[_Error] = []
        self._flags: set[OnnxParserFlag] = set()

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index: int) -> _Error:
        return self._errors[index]

    def set_flag(self, flag: OnnxParserFlag) -> None:
        self._flags.add(flag)

    def load_model_proto(self, data: bytes) -> bool:
        self._model = onnx.load_from_string(data)
        return True

    def load_initializer(self, name: str, address: int, size: int) -> bool:
        assert self._model is not None, "load_model_proto() comes first"
        for tensor in self._model.graph.initializer:
            if tensor.name == name:
                if math.prod(tensor.dims) * _ITEM_SIZES[tensor.data_type] != size:
                    return self._fail(f"{name}: {size} bytes are not its size")
                self._loaded[name] = (address, size)
                return True
        return self._fail(f"{name}: no such initializer")

    def parse_model_proto(self) -> bool:
        model = self._model
        assert model is not None
        for tensor in model.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            if tensor.name not in self._loaded:
                return self._fail(f"{tensor.name}: its external data was not loaded")
            address, size = self._loaded[tensor.name]
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = ctypes.string_at(address, size)
        overridden = self.plugins if OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE in self._flags else set()
        literal = [(f.domain, f.name) for f in model.functions if f.name not in overridden]
        model = onnx.inliner.inline_selected_functions(model, literal)
        for value in model.graph.input:
            if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
                message = f"ModelImporter.cpp:1: Make sure input {value.name} has Int64 binding."
                self._logger.log(Severity.WARNING, message)
        self._network.fill(model, overridden)
        return True

    def _fail(self, text: str) -> bool:
        self._errors.append(_Error(text))
        return False
