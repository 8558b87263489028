"""Class-style plugins under the rules of TensorRT's interface."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgevlm.plugins.macs.config import SETTINGS, MacsConfig
from edgevlm.plugins.macs.report import ENTRIES
from edgevlm.plugins.tensorrt import classes
from edgevlm.plugins.tensorrt.classes import creator, register_class
from edgevlm.plugins.tensorrt.experts import MOE_EXPERTS
from edgevlm.plugins.tensorrt.launching import workspace_places
from edgevlm.plugins.tensorrt.macs import MACS_CAPACITY
from edgevlm.plugins.tensorrt.sere import SERE_ROUTING
from tests.fakes.tensorrt import FakeTensorRT
from tests.fakes.tensorrt.enums import DataType
from tests.fakes.tensorrt.plugins import PluginRun

CPU = torch.device("cpu")
HALF, BF16, FLOAT, LONG, BOOL = (
    DataType.HALF,
    DataType.BF16,
    DataType.FLOAT,
    DataType.INT64,
    DataType.BOOL,
)
ROWS = {"R": (1, 8, 300)}
EXPERTS = (("R", 64), ("R", 4), ("R", 4), (16, 64, 192), (16, 96, 64))


def experts(kind: DataType = HALF) -> PluginRun:
    trt: Any = FakeTensorRT("tensorrt", "10.16.1", None)
    return PluginRun(creator(trt, MOE_EXPERTS, CPU), [kind, LONG, *[kind] * 3], EXPERTS, ROWS)


def test_shapes_and_types_of_every_operator() -> None:
    trt: Any = FakeTensorRT("tensorrt", "10.16.1", None)
    assert experts(BF16).output_types == [BF16]
    assert experts().output_shapes({"R": 7}) == [(7, 64)]
    sere = PluginRun(
        creator(trt, SERE_ROUTING, CPU),
        [LONG, FLOAT, BOOL, BOOL, LONG, FLOAT],
        [("R", 4), (16, 16), (16,), ("R",), (1,), (1,)],
        ROWS,
    )
    assert sere.output_types == [LONG, LONG]
    assert sere.output_shapes({"R": 9}) == [(9, 4), (2,)]
    macs = PluginRun(
        creator(trt, MACS_CAPACITY, CPU),
        [HALF, FLOAT, LONG, HALF, BOOL, BOOL, FLOAT, FLOAT],
        [("R", 64), ("R", 16), ("R", 4), ("R", 4), ("R",), ("R",), (16,), (len(SETTINGS),)],
        ROWS,
    )
    assert macs.output_types == [LONG, HALF, FLOAT]
    assert macs.output_shapes({"R": 9}) == [(9, 4), (9, 4), (len(ENTRIES),)]


def test_all_floating_tensors_are_of_one_type_that_is_offered() -> None:
    run = experts()
    plugin = run.configured
    assert run.supports(plugin, [HALF, LONG, HALF, HALF, HALF, HALF])
    assert run.supports(plugin, [BF16, LONG, BF16, BF16, BF16, BF16])
    assert not run.supports(plugin, [HALF, LONG, BF16, HALF, HALF, HALF])
    assert not run.supports(plugin, [HALF, LONG, HALF, HALF, HALF, FLOAT])
    assert not run.supports(plugin, [HALF, DataType.INT32, HALF, HALF, HALF, HALF])
    assert not run.supports(plugin, [LONG, LONG, LONG, LONG, LONG, LONG])


def test_static_sizes_are_what_the_plan_holds() -> None:
    run = experts()
    assert [name for name, _, _ in run.plan] == ["H", "I", "N", "k"]
    assert run.load().statics == {"H": 64, "I": 96, "N": 16, "k": 4}


def test_clones_are_as_configured_and_share_nothing() -> None:
    run = experts()
    assert run.unconfigured.statics == {}  # a clone was configured, not this one
    first = run.load()
    second = first.clone()
    assert second.statics == first.statics and second.statics is not first.statics
    second.statics["N"] = 1
    assert first.statics["N"] == 16


def test_the_workspace_is_that_of_the_largest_shapes() -> None:
    sizes = {"R": 300, "H": 64, "I": 96, "N": 16, "k": 4}
    places, end = workspace_places(MOE_EXPERTS, sizes, "float16")
    assert experts().workspace_bytes == end
    assert all(place % 256 == 0 for place in places.values())
    assert end > 2 * 300 * 4 * (64 + 96)
    assert workspace_places(MOE_EXPERTS, sizes | {"R": 1}, "float16")[1] < end


def test_timings_are_of_these_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    before = experts().configured.timing_cache_id
    assert before == experts().configured.timing_cache_id and len(before) == 16
    monkeypatch.setattr(classes, "source_digest", lambda operator: "other" * 8)
    assert experts().configured.timing_cache_id != before


def test_tactics_are_not_for_it() -> None:
    plugin = experts().load()
    assert plugin.get_valid_tactics() == []
    plugin.set_tactic(0)
    with pytest.raises(AssertionError, match="not by tactic 3"):
        plugin.set_tactic(3)


def test_it_is_registered_once() -> None:
    trt: Any = FakeTensorRT("tensorrt", "10.16.1", None)
    for _ in range(2):
        register_class(trt, SERE_ROUTING, CPU)
    registry = trt.get_plugin_registry()
    found = registry.get_creator("SereRouting", "1", "edgevlm")
    assert list(registry.creators.values()) == [found]
    assert not registry.register_creator(creator(trt, SERE_ROUTING, CPU), "edgevlm")


def test_settings_have_a_fixed_number() -> None:
    assert MACS_CAPACITY.inputs[-1].shape[0].number({}) == MacsConfig().settings().numel()
