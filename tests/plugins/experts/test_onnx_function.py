"""The ONNX body against fp64, on ONNX Runtime and through TensorRT for RTX."""

from __future__ import annotations

import onnx
import onnx.helper as oh
import onnxruntime
import pytest
import tensorrt_rtx as trt
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.plugins.experts import moe_experts
from edgevlm.plugins.experts.onnx_function import function

from .cases import Shape, assert_near, expected, make

NAMES = ("hidden", "expert_ids", "expert_weights", "gate_up", "down")
TYPES = {
    torch.float32: onnx.TensorProto.FLOAT,
    torch.float16: onnx.TensorProto.FLOAT16,
    torch.bfloat16: onnx.TensorProto.BFLOAT16,
    torch.int64: onnx.TensorProto.INT64,
}


def model(inputs: list[Tensor], constants: int = 0) -> onnx.ModelProto:
    """The operator alone; the last ``constants`` inputs are initializers, rows are dynamic."""
    shapes = [["R", *tensor.shape[1:]] for tensor in inputs[:3]]
    shapes += [list(tensor.shape) for tensor in inputs[3:]]
    ports = [
        oh.make_tensor_value_info(name, TYPES[tensor.dtype], shape)
        for name, tensor, shape in zip(NAMES, inputs, shapes, strict=True)
    ]
    held = [
        oh.make_tensor(name, TYPES[tensor.dtype], tensor.shape, raw(tensor), raw=True)
        for name, tensor in list(zip(NAMES, inputs, strict=True))[5 - constants :]
    ]
    out = oh.make_tensor_value_info("out", TYPES[inputs[0].dtype], shapes[0])
    node = oh.make_node("MoeExperts", NAMES, ["out"], domain="edgevlm")
    graph = oh.make_graph([node], "experts", ports[: 5 - constants], [out], held)
    opsets = [oh.make_opsetid("", 24), oh.make_opsetid("edgevlm", 1)]
    made = oh.make_model(graph, functions=[function()], opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(made)
    return made


def raw(tensor: Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def run(inputs: list[Tensor]) -> Tensor:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model(inputs).SerializeToString(), options)
    feeds = {name: tensor.numpy() for name, tensor in zip(NAMES, inputs, strict=True)}
    return torch.from_numpy(session.run(None, feeds)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("rows", [1, 4, 60])
def test_shapes(rows: int, dtype: torch.dtype) -> None:
    inputs = make(Shape(rows, experts=16, top_k=4, hidden=64, width=24), dtype)
    found = run(inputs)
    assert found.dtype == dtype
    assert_near(found, expected(*inputs))


@settings(max_examples=25, deadline=None)
@given(
    shape=st.builds(
        Shape,
        rows=st.integers(1, 40),
        experts=st.integers(1, 9),
        top_k=st.integers(1, 5),
        hidden=st.integers(1, 30),
        width=st.integers(1, 20),
    ),
    seed=st.integers(0, 1000),
    drops=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_any_routing(shape: Shape, seed: int, drops: float) -> None:
    inputs = make(shape, torch.float32, seed, drops, distinct=False)
    assert_near(run(inputs), expected(*inputs))


@pytest.mark.parametrize("slots", [range(40), [0] * 40, [2] * 40, [0] * 33 + [1] * 6 + [2]])
def test_uneven_loads(slots: list[int]) -> None:
    inputs = make(Shape(40, experts=3, top_k=1), torch.float32)
    inputs[1] = torch.tensor(slots)[:, None] % 4  # 3 is a dropped slot
    assert_near(run(inputs), expected(*inputs))


def test_dropped_slots_stay_out_whatever_they_hold() -> None:
    inputs = make(Shape(6), torch.float32)
    inputs[1][1] = 5
    inputs[2][1] = float("nan")
    inputs[0][0] = float("inf")  # row 0 also fills places that nobody has
    found = run(inputs)
    assert found[1].tolist() == [0.0] * 24
    assert not found[0].isfinite().any()
    assert_near(found[1:], moe_experts(*inputs)[1:].double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tensorrt_for_rtx_compiles_it(dtype: torch.dtype) -> None:
    inputs = make(Shape(1, experts=16, top_k=4, hidden=256, width=96), dtype)
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(model(inputs, constants=2).SerializeToString())
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM120, 0)
    for most in (800, 8):  # prefill and decode
        profile = builder.create_optimization_profile()
        for name, columns in (("hidden", 256), ("expert_ids", 4), ("expert_weights", 4)):
            profile.set_shape(name, (1, columns), (most, columns), (most, columns))
        config.add_optimization_profile(profile)
    weights = sum(tensor.nbytes for tensor in inputs[3:])
    plan = builder.build_serialized_network(network, config)
    assert weights < plan.nbytes < 4 * weights
