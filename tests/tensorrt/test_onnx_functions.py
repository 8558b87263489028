"""Operators of ours: literally, by a plugin, or by a layer."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnxruntime
import pytest

from edgevlm.builder.onnx_functions import (
    DOMAIN,
    FunctionMapping,
    FunctionMappings,
    NativeMapping,
    PluginMapping,
    Site,
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


def layers(trt: Any, model: onnx.ModelProto, mappings: dict[str, FunctionMapping]) -> list[str]:
    network = trt.Builder(None).create_network(2)
    parser = trt.OnnxParser(network, None)
    applied = apply_mappings(mappings, model, Site(trt))
    assert parser.load_model_proto(model.SerializeToString()) and parser.parse_model_proto()
    applied.finish(network)
    return [layer.type.name for layer in network.layers]


def as_plugin(node: onnx.NodeProto, site: Site) -> list[onnx.NodeProto]:
    names = {"domain": DOMAIN, "plugin_namespace": "test", "plugin_version": "1"}
    return [oh.make_node(node.op_type, node.input, node.output, **names)]


def register_double(site: Site) -> None:
    creator = SimpleNamespace(
        name="Double", plugin_version="1", plugin_namespace="test", field_names=[]
    )
    assert site.trt.get_plugin_registry().register_creator(creator, "test")


def nothing(site: Site) -> None: ...


def test_the_body_is_an_executable_specification() -> None:
    session = onnxruntime.InferenceSession(doubled_model().SerializeToString())
    (result,) = session.run(None, {"x": np.array([1, 2], np.float16)})
    assert result.tolist() == [2, 4]
    assert layers(library().trt, doubled_model(), {}) == ["ELEMENTWISE"]


def test_a_plugin_takes_the_place_of_the_node_and_its_source_is_recorded(tmp_path: Path) -> None:
    source = tmp_path / "double.cu"
    source.write_text("kernel")
    plugin = PluginMapping(JETSON, register_double, as_plugin, (source,))
    mappings = FunctionMappings()
    mappings.register("Double", plugin)
    lib = library()
    chosen = mappings.usable(lib, ("11.0",))
    assert layers(lib.trt, doubled_model(), chosen) == ["PLUGIN_V3"]
    applied = apply_mappings(chosen, doubled_model(), Site(library().trt))
    assert applied.sources == {"double.cu": hashlib.sha256(b"kernel").hexdigest()}


def test_a_plugin_nobody_registered_is_not_found() -> None:
    chosen: dict[str, FunctionMapping] = {"Double": PluginMapping(JETSON, nothing, as_plugin)}
    with pytest.raises(AssertionError):
        layers(library().trt, doubled_model(), chosen)


def test_a_layer_of_tensorrts_own_takes_the_place_of_the_node() -> None:
    finished = []

    def nodes(node: onnx.NodeProto, site: Site) -> list[onnx.NodeProto]:
        return [oh.make_node("MatMul", [node.input[0]] * 2, node.output)]

    def finish(definition: Any, site: Site, node: onnx.NodeProto) -> None:
        finished.append((definition.num_layers, node.op_type))

    chosen: dict[str, FunctionMapping] = {"Double": NativeMapping(JETSON, nodes, finish)}
    assert layers(library().trt, doubled_model(), chosen) == ["MATRIX_MULTIPLY"]
    assert finished == [(1, "Double")]


def test_the_first_that_works_on_every_gpu_is_chosen() -> None:
    thor = (Rule(TENSORRT, (10, 16), ("11.0",)),)
    layer = NativeMapping(thor, as_plugin, lambda definition, site, node: None)
    plugin = PluginMapping(JETSON, nothing, as_plugin)
    mappings = FunctionMappings()
    mappings.register("Double", layer, plugin)
    assert mappings.usable(library(), ("11.0",)) == {"Double": layer}
    assert mappings.usable(library(), ("8.7",)) == {"Double": plugin}
    assert mappings.usable(library(), ("8.7", "11.0")) == {"Double": plugin}
    assert mappings.usable(library(version="10.15.0"), ("8.7",)) == {}
    assert mappings.usable(library(TENSORRT_RTX, "1.7.1"), ("12.0",)) == {}
    assert mappings.usable(library(), ("11.0",), native=False) == {"Double": plugin}


def test_what_a_plugin_needs_may_be_absent() -> None:
    mappings = FunctionMappings()
    absent = PluginMapping(JETSON, nothing, as_plugin, available=lambda: False)
    mappings.register("Double", absent)
    assert mappings.usable(library(), ("11.0",)) == {}


def test_functions_the_model_lacks_are_left_alone() -> None:
    def refuse(site: Site) -> None:
        raise AssertionError("nothing to register")

    plain = doubled_model()
    del plain.functions[:]
    mapping = PluginMapping(JETSON, refuse, as_plugin)
    assert apply_mappings({"Double": mapping}, plain, Site(None)).sources == {}


def test_a_function_is_mapped_once() -> None:
    mappings = FunctionMappings()
    mappings.register("Double")
    with pytest.raises(UsageError, match="registered already"):
        mappings.register("Double")
