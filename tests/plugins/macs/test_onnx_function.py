"""The ONNX function on ONNX Runtime against the reference."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnx.helper as oh
import onnxruntime
import pytest
import torch
from hypothesis import given, settings

from edgevlm.plugins.macs import MacsConfig, macs_capacity
from edgevlm.plugins.macs.onnx_function import DOMAIN, NAME, function

from .cases import Case, cases, configs, make_case

_TYPES = {torch.float32: onnx.TensorProto.FLOAT, torch.float16: onnx.TensorProto.FLOAT16}


@cache
def session(dtype: torch.dtype) -> onnxruntime.InferenceSession:
    real, own = onnx.TensorProto.FLOAT, _TYPES[dtype]
    whole, flag = onnx.TensorProto.INT64, onnx.TensorProto.BOOL
    inputs = {
        "hidden": (own, ["R", "H"]),
        "probabilities": (real, ["R", "N"]),
        "expert_ids": (whole, ["R", "k"]),
        "expert_weights": (own, ["R", "k"]),
        "rows": (flag, ["R"]),
        "visual_rows": (flag, ["R"]),
        "groups": (real, ["N"]),
        "settings": (real, ["S"]),
    }
    outputs = {"ids": (whole, ["R", "k"]), "weights": (own, ["R", "k"]), "report": (real, ["M"])}
    ports = [
        [oh.make_tensor_value_info(name, *kind) for name, kind in part.items()]
        for part in (inputs, outputs)
    ]
    node = oh.make_node(NAME, list(inputs), list(outputs), domain=DOMAIN)
    opsets = [oh.make_opsetid("", 24), oh.make_opsetid(DOMAIN, 1)]
    graph = oh.make_graph([node], "g", *ports)
    model = oh.make_model(graph, functions=[function()], opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def compare(case: Case, config: MacsConfig, dtype: torch.dtype) -> None:
    given_inputs = (*case.inputs, config.settings())
    runner = session(dtype)
    names = [port.name for port in runner.get_inputs()]
    feeds = {name: t.numpy() for name, t in zip(names, given_inputs, strict=True)}
    ids, weights, report = runner.run(None, feeds)
    expected = macs_capacity(*given_inputs)
    assert np.array_equal(ids, expected.expert_ids.numpy())
    tolerance = 1e-3 if dtype == torch.float16 else 1e-6
    np.testing.assert_allclose(weights, expected.expert_weights.numpy(), atol=tolerance)
    np.testing.assert_allclose(report, expected.report.numpy(), rtol=1e-4, atol=1e-4)


@settings(max_examples=100, deadline=None)
@given(cases(), configs())
def test_body_is_the_reference(case: Case, config: MacsConfig) -> None:
    compare(case, config, torch.float32)


@settings(max_examples=25, deadline=None)
@given(cases(dtype=torch.float16), configs())
def test_in_half_precision(case: Case, config: MacsConfig) -> None:
    compare(case, config, torch.float16)


@pytest.mark.parametrize("factor", [0.3, 1.0])
def test_many_rows(factor: float) -> None:
    case = make_case(5, 400, 16, 4)
    compare(case, MacsConfig(capacity_factor=factor, devices=2), torch.float32)
