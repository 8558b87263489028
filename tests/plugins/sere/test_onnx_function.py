"""The ONNX body against the reference, on ONNX Runtime and through TensorRT for RTX."""

from __future__ import annotations

from functools import cache

import onnx
import onnx.helper as oh
import onnxruntime
import pytest
import tensorrt_rtx as trt
import torch
from hypothesis import given, settings

from edgevlm.plugins.sere.onnx_function import function
from edgevlm.plugins.sere.reference import reroute

from .cases import Case, cases

TYPE = onnx.TensorProto
INPUTS = {
    "expert_ids": (TYPE.INT64, ["R", "k"]),
    "similarity": (TYPE.FLOAT, ["N", "N"]),
    "protected": (TYPE.BOOL, ["N"]),
    "decode_rows": (TYPE.BOOL, ["R"]),
    "top_k": (TYPE.INT64, [1]),
    "threshold": (TYPE.FLOAT, [1]),
}


def model(**sizes: int) -> onnx.ModelProto:
    """The operator alone; ``sizes`` fix symbols."""
    ports = [
        oh.make_tensor_value_info(name, kind, [sizes.get(str(side), side) for side in shape])
        for name, (kind, shape) in {**INPUTS, "routed_ids": INPUTS["expert_ids"]}.items()
    ]
    active = oh.make_tensor_value_info("active", TYPE.INT64, [2])
    node = oh.make_node("SereRouting", list(INPUTS), ["routed_ids", "active"], domain="edgevlm")
    graph = oh.make_graph([node], "sere", ports[:-1], [ports[-1], active])
    opsets = [oh.make_opsetid("", 24), oh.make_opsetid("edgevlm", 1)]
    made = oh.make_model(graph, functions=[function()], opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(made)
    return made


@cache
def session() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model().SerializeToString(), options)


@settings(deadline=None, max_examples=200)
@given(cases())
def test_the_body_is_the_reference(case: Case) -> None:
    feeds = {name: t.numpy() for name, t in zip(INPUTS, case.tensors, strict=True)}
    found = session().run(None, feeds)
    for one, other in zip(found, reroute(*case.tensors), strict=True):
        assert torch.equal(torch.from_numpy(one), other)


@pytest.mark.parametrize("rows", [1, 32, None])
def test_tensorrt_for_rtx_compiles_it(rows: int | None) -> None:
    log = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    sizes = {"N": 128, "k": 8} | ({} if rows is None else {"R": rows})
    assert parser.parse(model(**sizes).SerializeToString()), parser.get_error(0).desc()
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM120, 0)
    if rows is None:
        profile = builder.create_optimization_profile()
        profile.set_shape("expert_ids", (1, 8), (8, 8), (2048, 8))
        profile.set_shape("decode_rows", (1,), (8,), (2048,))
        config.add_optimization_profile(profile)
    assert builder.build_serialized_network(network, config) is not None
