"""Plugin calls against the reference: through the class-style plugin and through the chain.

Run as a module it does so on the GPU, with compiled kernels rather than Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgevlm.plugins.experts.reference import moe_experts
from edgevlm.plugins.macs.config import MacsConfig
from edgevlm.plugins.macs.reference import macs_capacity
from edgevlm.plugins.sere.reference import reroute
from edgevlm.plugins.tensorrt.classes import creator
from edgevlm.plugins.tensorrt.datatypes import data_type, torch_name
from edgevlm.plugins.tensorrt.description import Operator, Port
from edgevlm.plugins.tensorrt.experts import MOE_EXPERTS
from edgevlm.plugins.tensorrt.launching import call
from edgevlm.plugins.tensorrt.macs import MACS_CAPACITY
from edgevlm.plugins.tensorrt.sere import SERE_ROUTING
from tests.fakes.tensorrt import FakeTensorRT
from tests.fakes.tensorrt.plugins import PluginRun
from tests.plugins.experts.cases import Shape, make

CPU = torch.device("cpu")
NO_CHOICE: Mapping[str, int] = {}


def run_class(operator: Operator, inputs: Sequence[Tensor], most_rows: int = 0) -> list[Tensor]:
    """The outputs of an engine's plugin: built, serialised, loaded, run at addresses."""
    device = inputs[0].device
    run = built(operator, inputs, most_rows)
    plugin = run.load()
    sizes = {"R": operator.solve([tensor.shape for tensor in inputs])["R"]}
    results = [
        torch.full(shape, 77, device=device).to(_torch_dtype(kind))
        for shape, kind in zip(run.output_shapes(sizes), run.output_types, strict=True)
    ]
    workspace = torch.full((run.workspace_bytes + 256,), 0x5A, dtype=torch.uint8, device=device)
    start = -(-workspace.data_ptr() // 256) * 256
    stream = 0
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        stream = torch.cuda.current_stream(device).cuda_stream
    run.enqueue(
        plugin,
        sizes,
        [tensor.data_ptr() for tensor in inputs],
        [tensor.data_ptr() for tensor in results],
        start,
        stream,
    )
    end = start - workspace.data_ptr() + run.workspace_bytes
    assert workspace[end:].eq(0x5A).all(), "it wrote behind its workspace"
    return results


def built(operator: Operator, inputs: Sequence[Tensor], most_rows: int = 0) -> PluginRun:
    """The plugin as a builder leaves it, for ``most_rows`` rows or as many as there are."""
    trt: Any = FakeTensorRT("tensorrt", "10.16.1", None)
    rows = operator.solve([tensor.shape for tensor in inputs])["R"]
    return PluginRun(
        creator(trt, operator, inputs[0].device),
        [data_type(trt, str(tensor.dtype).removeprefix("torch.")) for tensor in inputs],
        [
            shape_with_rows(port, tensor)
            for port, tensor in zip(operator.inputs, inputs, strict=True)
        ],
        {"R": (1, rows, max(rows, most_rows))},
    )


def shape_with_rows(port: Port, tensor: Tensor) -> list[int | str]:
    """The shape, with ``"R"`` where it is a number of rows."""
    return [
        "R" if extent.symbol == "R" else size
        for extent, size in zip(port.shape, tensor.shape, strict=True)
    ]


def run_chain(
    operator: Operator, inputs: Sequence[Tensor], variants: Mapping[str, int] = NO_CHOICE
) -> list[Tensor]:
    """The outputs of its launches, each a plugin of its own that knows only what it is given.

    Args:
        variants: of some launches, by the launch's name; others get the one that suits.
    """
    tensors = dict(zip((port.name for port in operator.inputs), inputs, strict=True))
    sizes = operator.solve([tensor.shape for tensor in inputs])
    for stage in operator.chain():
        (launch,) = stage.launches
        if launch.name in variants:
            chosen = variants[launch.name]
            launch = replace(launch, choose=lambda sizes, floating, index=chosen: index)
            stage = replace(stage, launches=(launch,))
        given = [tensors[port.name] for port in stage.inputs]
        results = call(stage, given, {name: sizes[name] for name in stage.attributes})
        tensors |= zip((port.name for port in stage.outputs), results, strict=True)
    return [tensors[port.name] for port in operator.outputs]


def check_experts(
    shape: Shape, dtype: torch.dtype, seed: int = 0, drops: float = 0.0, device: torch.device = CPU
) -> None:
    """Experts, by both styles."""
    inputs = [tensor.to(device) for tensor in make(shape, dtype, seed, drops)]
    wanted = moe_experts(*(tensor.float() if tensor.is_floating_point() else tensor
                           for tensor in inputs))  # fmt: skip
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for results in (run_class(MOE_EXPERTS, inputs), run_chain(MOE_EXPERTS, inputs)):
        torch.testing.assert_close(results[0].float(), wanted, atol=tolerance, rtol=tolerance)


def check_routing(
    rows: int, experts: int, top_k: int, strong: int, seed: int = 0, device: torch.device = CPU
) -> None:
    """Re-routing, by both styles; some rows vote, some experts are protected."""
    draw = torch.Generator().manual_seed(seed)
    similarity = torch.rand(experts, experts, generator=draw)
    inputs = [
        torch.rand(rows, experts, generator=draw).topk(top_k).indices,
        similarity,
        torch.rand(experts, generator=draw) < 0.2,
        torch.rand(rows, generator=draw) < 0.8,
        torch.tensor([strong]),
        torch.tensor([0.5]),
    ]
    inputs = [tensor.to(device) for tensor in inputs]
    wanted = reroute(*inputs)
    for results in (run_class(SERE_ROUTING, inputs), run_chain(SERE_ROUTING, inputs)):
        for found, right in zip(results, wanted, strict=True):
            assert torch.equal(found, right)


def check_capacity(
    rows: int, experts: int, top_k: int, config: MacsConfig, seed: int = 0,
    device: torch.device = CPU,
) -> None:  # fmt: skip
    """Capacities, by the one plugin there is."""
    draw = torch.Generator().manual_seed(seed)
    probabilities = torch.randn(rows, experts, generator=draw).softmax(1)
    weights, ids = probabilities.topk(top_k)
    inputs = [
        torch.randn(rows, 32, generator=draw).half(),
        probabilities,
        ids,
        (weights / weights.sum(1, keepdim=True)).half(),
        torch.rand(rows, generator=draw) < 0.9,
        torch.arange(rows) < 2 * rows // 3,
        torch.randint(-1, 2, (experts,), generator=draw).float(),
        config.settings(),
    ]
    inputs = [tensor.to(device) for tensor in inputs]
    wanted = macs_capacity(*inputs)
    ids, weights, report = run_class(MACS_CAPACITY, inputs, most_rows=2 * rows)
    assert torch.equal(ids, wanted.expert_ids)
    torch.testing.assert_close(weights, wanted.expert_weights)
    # A token's weight is rounded to 1/65536, and entropies differ in their last bits.
    torch.testing.assert_close(report, wanted.report, atol=1e-3, rtol=1e-5)


def check_all(device: torch.device, dtypes: Sequence[torch.dtype]) -> None:
    """One of everything."""
    for dtype in dtypes:
        check_experts(Shape(40, experts=6, top_k=3), dtype, drops=0.2, device=device)
        check_experts(Shape(1, experts=16, top_k=4, hidden=256, width=80), dtype, device=device)
    check_routing(5, 16, 4, 2, device=device)
    check_routing(140, 128, 8, 2, device=device)
    check_capacity(60, 8, 2, MacsConfig(capacity_factor=1.0), device=device)


def _torch_dtype(kind: Any) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, torch_name(kind))
    return dtype


if __name__ == "__main__":
    check_all(torch.device("cuda"), (torch.float16, torch.bfloat16))
