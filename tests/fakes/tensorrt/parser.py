"""The ONNX parser."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import onnx
import onnx.inliner

from .enums import Severity
from .network import Network
from .plugin_nodes import computed
from .plugins import Registry

_ITEM_SIZES = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.FLOAT16: 2, onnx.TensorProto.BFLOAT16: 2}


class _Error:
    def __init__(self, text: str) -> None:
        self._text = text

    def desc(self) -> str:
        return self._text


class OnnxParser:
    """Weights are loaded by address before parsing, and are read when it happens."""

    registry = Registry()  # the library's

    def __init__(self, network: Network, logger: Any) -> None:
        self._network, self._logger = network, logger
        self._model: onnx.ModelProto | None = None
        self._loaded: dict[str, tuple[int, int]] = {}
        self._errors: list[_Error] = []

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index: int) -> _Error:
        return self._errors[index]

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
        model = onnx.inliner.inline_local_functions(model)
        for node in model.graph.node:
            problem = self._unknown(node)
            if problem:
                return self._fail(problem)
        for value in model.graph.input:
            if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
                message = f"ModelImporter.cpp:1: Make sure input {value.name} has Int64 binding."
                self._logger.log(Severity.WARNING, message)
        self._network.fill(model, computed(model))
        return True

    def _unknown(self, node: onnx.NodeProto) -> str:
        """Why a node is neither a standard operator nor a plugin."""
        if node.domain == "":
            return ""
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        version = attributes.pop("plugin_version", b"1").decode()
        namespace = attributes.pop("plugin_namespace", b"").decode()
        creator = self.registry.get_creator(node.op_type, version, namespace)
        if creator is None:
            return (
                f"{node.op_type}: Plugin not found, are the plugin name, version, and namespace"
                " correct?"
            )
        strange = set(attributes) ^ {getattr(f, "name", f) for f in creator.field_names}
        return f"{node.op_type}: attributes {strange}" if strange else ""

    def _fail(self, text: str) -> bool:
        self._errors.append(_Error(text))
        return False
