"""Operators of ours: literally, by a plugin, or by a layer."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnxruntime
import pytest

from edgevlm.builder.onnx_functions import (
    DOMAIN,
    FunctionMappings,
    Mapping,
    NativeMapping,
    PluginMapping,
    apply_mappings,
)
from edgevlm.core import UsageError
from edgevlm.core.capabilities import TENSORRT, TENSORRT_RTX, Rule
from edgevlm.core.tensorrt_library import TensorRTLibrary
from tests.fakes.tensorrt import FakeDevice, FakeTensorRT

JETSON = (Rule(TENSORRT, (10, 16), ("8.7", "11.0")),)


def doubled_model() -> onnx.ModelProto:
    """``y = edgevlm.Double(x)``, whose body is an addition."""
    opsets = [oh.make_opsetid("", 24), oh.make_opsetid(DOMAIN, 1)]
    body = [oh.make_node("Add", ["a", "a"], ["b"])]
    function = oh.make_function(DOMAIN, "Double", ["a"], ["b"], body, opsets[:1])
    ports = [oh.make_tensor_value_info(n, onnx.TensorProto.FLOAT16, ["n"]) for n in "xy"]
    node = oh.make_node("Double", ["x"], ["y"], domain=DOMAIN)
    graph = oh.make_graph([node], "g", ports[:1], ports[1:])
    return oh.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)


def library(name: str = TENSORRT, version: str = "10.16.0") -> TensorRTLibrary:
    return TensorRTLibrary(name, FakeTensorRT(name, version, FakeDevice()), version)


def layers(trt: Any, model: onnx.ModelProto, mappings: dict[str, Mapping]) -> list[str]:
    network = trt.Builder(None).create_network(2)
    parser = trt.OnnxParser(network, None)
    apply_mappings(mappings, model, trt, parser)
    assert parser.load_model_proto(model.SerializeToString()) and parser.parse_model_proto()
    return [layer.type.name for layer in network.layers]


def test_the_body_is_an_executable_specification() -> None:
    session = onnxruntime.InferenceSession(doubled_model().SerializeToString())
    (result,) = session.run(None, {"x": np.array([1, 2], np.float16)})
    assert result.tolist() == [2, 4]
    assert layers(library().trt, doubled_model(), {}) == ["ELEMENTWISE"]


def test_a_plugin_takes_the_place_of_the_node_and_its_source_is_recorded(tmp_path: Path) -> None:
    source = tmp_path / "double.cu"
    source.write_text("kernel")
    plugin = PluginMapping(JETSON, lambda trt: trt.OnnxParser.plugins.add("Double"), (source,))
    mappings = FunctionMappings()
    mappings.register("Double", plugin)
    lib = library()
    chosen = mappings.usable(lib, ("11.0",))
    assert layers(lib.trt, doubled_model(), chosen) == ["PLUGIN_V3"]
    parser = lib.trt.OnnxParser(None, None)
    digests = apply_mappings(chosen, doubled_model(), lib.trt, parser)
    assert digests == {"double.cu": hashlib.sha256(b"kernel").hexdigest()}


def test_a_layer_of_tensorrts_own_takes_the_place_of_the_node() -> None:
    def rewrite(model: onnx.ModelProto, function: str) -> None:
        for node in model.graph.node:
            if (node.domain, node.op_type) == (DOMAIN, function):
                node.CopyFrom(oh.make_node("MatMul", [node.input[0]] * 2, node.output))

    chosen: dict[str, Mapping] = {"Double": NativeMapping(JETSON, rewrite)}
    assert layers(library().trt, doubled_model(), chosen) == ["MATRIX_MULTIPLY"]


def test_the_first_that_works_on_every_gpu_is_chosen() -> None:
    layer = NativeMapping((Rule(TENSORRT, (10, 16), ("11.0",)),), lambda model, name: None)
    plugin = PluginMapping(JETSON, lambda trt: None)
    mappings = FunctionMappings()
    mappings.register("Double", layer, plugin)
    assert mappings.usable(library(), ("11.0",)) == {"Double": layer}
    assert mappings.usable(library(), ("8.7",)) == {"Double": plugin}
    assert mappings.usable(library(), ("8.7", "11.0")) == {"Double": plugin}
    assert mappings.usable(library(version="10.15.0"), ("8.7",)) == {}
    assert mappings.usable(library(TENSORRT_RTX, "1.7.1"), ("12.0",)) == {}


def test_functions_the_model_lacks_are_left_alone() -> None:
    def refuse(trt: Any) -> None:
        raise AssertionError("nothing to register")

    plain = doubled_model()
    del plain.functions[:]
    assert apply_mappings({"Double": PluginMapping(JETSON, refuse)}, plain, None, None) == {}


def test_a_function_is_mapped_once() -> None:
    mappings = FunctionMappings()
    mappings.register("Double")
    with pytest.raises(UsageError, match="registered already"):
        mappings.register("Double")
