"""Quick-deploy plugins under the rules of ``tensorrt.plugin``; compiling is stood in for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from edgevlm.plugins.tensorrt import quick
from edgevlm.plugins.tensorrt.ahead_of_time import CompiledKernel
from edgevlm.plugins.tensorrt.description import Launch, Operator, Variant
from edgevlm.plugins.tensorrt.experts import MOE_EXPERTS
from edgevlm.plugins.tensorrt.macs import MACS_CAPACITY
from edgevlm.plugins.tensorrt.quick import register_quick
from edgevlm.plugins.tensorrt.sere import SERE_ROUTING
from tests.fakes.tensorrt import FakeTensorRT
from tests.fakes.tensorrt.enums import DataType
from tests.fakes.tensorrt.quick import QuickRun, number

HALF, BF16, FLOAT, LONG, INT, BOOL = (
    DataType.HALF,
    DataType.BF16,
    DataType.FLOAT,
    DataType.INT64,
    DataType.INT32,
    DataType.BOOL,
)
Compiled = list[tuple[str, Variant, str, str]]
SLOTS = "S"  # an extent of its own to TensorRT, which knows no product


@pytest.fixture
def trt(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = FakeTensorRT("tensorrt", "10.16.1", None)
    monkeypatch.setitem(sys.modules, "tensorrt.plugin", module.plugin)
    for stage in (*MOE_EXPERTS.chain(), *SERE_ROUTING.chain()):
        register_quick(module, stage)
    return module


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    asked: Compiled = []

    def compile_kernel(
        operator: Operator, launch: Launch, variant: Variant, floating: str, capability: str
    ) -> CompiledKernel:
        asked.append((operator.name, variant, floating, capability))
        return CompiledKernel("kernel", "ptx", 128, 4096)

    monkeypatch.setattr(quick, "compile_kernel", compile_kernel)
    return asked


def run(trt: Any, name: str, types: Any, shapes: Any, **attributes: int) -> QuickRun:
    return QuickRun(
        trt.plugin.plugins[f"edgevlm::{name}"], types, shapes, {**attributes, "sm": 110}
    )


def plan(trt: Any) -> QuickRun:
    return run(trt, "MoeExpertsPlan", [LONG], [("R", 8)], N=128)


def gate_up(trt: Any, kind: DataType = HALF) -> QuickRun:
    tables = [(SLOTS, 3)] * 4
    shapes = [("R", 2048), (128, 2048, 1536), (SLOTS,), *tables]
    return run(trt, "MoeExpertsGateUp", [kind, kind, *[INT] * 5], shapes, k=8)


def test_every_stage_is_registered_once(trt: Any) -> None:
    names = {name.removeprefix("edgevlm::") for name in trt.plugin.plugins}
    stages = (*MOE_EXPERTS.chain(), *SERE_ROUTING.chain())
    assert names == {stage.name for stage in stages}
    for stage in stages:
        register_quick(trt, stage)  # again is no error
        found = trt.get_plugin_registry().get_creator(stage.name, "1", "edgevlm")
        assert found.field_names == [*stage.attributes, "sm"]


def test_shapes_are_expressions(trt: Any) -> None:
    for rows in (1, 5, 700):
        slots = 8 * rows
        active = min(slots, 128)
        tiles = [(active + (slots - active) // height, 3) for height in (16, 32, 64, 128)]
        assert plan(trt).output_shapes({"R": rows}) == [(slots,), *tiles]
    assert gate_up(trt).output_shapes({"R": 3, SLOTS: 24}) == [(24, 768)]


def test_types_are_those_of_the_engine(trt: Any) -> None:
    assert [d.dtype for d in plan(trt).outputs] == [INT] * 5
    assert [d.dtype for d in gate_up(trt, BF16).outputs] == [BF16]
    assert list(plan(trt).combinations()) == [(LONG, *[INT] * 5)]
    found = gate_up(trt).combinations()
    assert list(found) == [(kind, kind, *[INT] * 5, kind) for kind in (HALF, BF16, FLOAT)]
    assert [len(tactics) for tactics in found.values()] == [4, 4, 1]


def test_a_tactic_is_a_kernel_whatever_the_rows(trt: Any, compiled: Compiled) -> None:
    found = gate_up(trt)
    heights = []
    for tactic in (1, 2, 3, 4):
        name, ptx, launch, extra = found.kernel(tactic)
        operator, variant, floating, capability = compiled[-1]
        assert (name, ptx, list(extra)) == ("kernel", "ptx", [])
        assert (operator, floating, capability) == ("MoeExpertsGateUp", "float16", "11.0")
        assert variant.constants["WIDTH"] == 768 and variant.constants["TOP_K"] == 8
        heights.append(variant.constants["ROWS"])
        for rows in (1, 5, 700):
            sizes = {"R": rows, SLOTS: 8 * rows}
            active = min(8 * rows, 128)
            tiles = active + (8 * rows - active) // heights[-1]
            columns = variant.constants["COLUMNS"]
            grid = [number(getattr(launch, f"grid_{axis}"), sizes) for axis in "xyz"]
            assert grid == [-(-768 // columns), tiles, 1]
        assert number(launch.block_x, {}) == 128
        assert number(launch.shared_mem, {}) == 4096
    assert heights == [16, 32, 64, 128]


def test_integers_stand_between_inputs_and_outputs(trt: Any, compiled: Compiled) -> None:
    _, _, launch, extra = plan(trt).kernel(1)
    values = [number(extent, {"R": 20}) for extent in extra]
    assert values == [160, 128 + 32 // 16, 128 + 1, 128, 128]
    assert [number(getattr(launch, f"grid_{a}"), {"R": 20}) for a in "xyz"] == [128, 4, 1]


def test_rerouting(trt: Any, compiled: Compiled) -> None:
    shapes = [("R", 8), (128, 128), (128,), ("R",), (1,), (1,)]
    found = run(trt, "SereRouting", [LONG, FLOAT, BOOL, BOOL, LONG, FLOAT], shapes)
    assert found.output_shapes({"R": 5}) == [(5, 8), (2,)]
    assert list(found.combinations().values()) == [[1, 2, 3]]
    _, _, launch, extra = found.kernel(3)
    assert number(extra[0], {"R": 33}) == 33
    assert number(launch.grid_x, {"R": 33}) == 1 + 8 * 2
    assert compiled[-1][1].constants["ROWS"] == 128


def test_kernels_are_compiled_for_the_gpu_that_the_node_names(trt: Any, compiled: Compiled) -> None:
    found = QuickRun(
        trt.plugin.plugins["edgevlm::MoeExpertsPlan"], [LONG], [("R", 8)], {"N": 128, "sm": 87}
    )
    found.kernel(1)
    assert compiled[-1][3] == "8.7"


def test_a_kernel_with_other_parameters_is_refused(trt: Any) -> None:
    stage = MACS_CAPACITY.launches[0]
    operator = Operator(
        "Mixed",
        tuple(MACS_CAPACITY.ports[n] for n in ("hidden", "rows", "visual_rows")),
        (MACS_CAPACITY.ports["entropy"],),
        (Launch("", stage.kernel, ("entropy", *stage.tensors[:3]), ("entropy",), stage.variants),),
    )
    with pytest.raises(AssertionError, match="Mixed"):
        register_quick(trt, operator)
