"""The stand-in for TensorRT refuses what TensorRT forbids."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import onnx
import onnx.helper as oh
import pytest
import torch

from tests.fakes.tensorrt import FakeDevice, FakeTensorRT

HALF, LONG = onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64


def cache_model(capacity: int | str = 8) -> onnx.ModelProto:
    """One cache update and one causal attention over it: two heads of four channels."""

    def value(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
        return oh.make_tensor_value_info(name, kind, shape)

    rows: list[int | str] = ["batch", 2, "tokens", 4]
    cache: list[int | str] = ["batch", 2, capacity, 4]
    inputs = [value("x", HALF, rows), value("cache", HALF, cache)]
    inputs += [value(name, LONG, ["batch"]) for name in ("write", "lengths")]
    nodes = [
        oh.make_node("TensorScatter", ["cache", "x", "write"], ["cache_out"], axis=-2),
        oh.make_node(
            "Attention", ["x", "cache_out", "cache_out", "", "", "", "lengths"], ["y"], is_causal=1
        ),
    ]
    outputs = [value("y", HALF, rows), value("cache_out", HALF, cache)]
    graph = oh.make_graph(nodes, "g", inputs, outputs)
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 24)], ir_version=10)


class World:
    """A builder and what it said."""

    def __init__(self, device: FakeDevice | None = None) -> None:
        self.device = device or FakeDevice()
        self.trt: Any = FakeTensorRT("tensorrt", "10.16.1", self.device)
        self.said: list[str] = []
        said = self.said

        class Logger(self.trt.ILogger):  # type: ignore[misc, name-defined]
            def log(self, severity: Any, message: str) -> None:
                said.append(message)

        self.logger = Logger()
        self.builder = self.trt.Builder(self.logger)

    def network(self, model: onnx.ModelProto, flags: int = 2) -> Any:
        network = self.builder.create_network(flags)
        parser = self.trt.OnnxParser(network, self.logger)
        assert parser.load_model_proto(model.SerializeToString()) and parser.parse_model_proto()
        return network

    def correct(self, network: Any) -> Any:
        lengths = next(t for t in network.inputs if t.name == "lengths")
        attention = network.layers[1].handle
        attention.causal_kind = self.trt.CausalMaskKind.LOWER_RIGHT
        attention.key_value_lengths = network.add_cast(lengths, self.trt.int32).get_output(0)
        return attention

    def plan(self, network: Any, leave_out: str = "") -> bytes | None:
        config = self.builder.create_builder_config()
        profile = self.builder.create_optimization_profile()
        for tensor in network.inputs:
            if -1 in tensor.shape and tensor.name != leave_out:
                shapes = [tuple(s if s > 0 else n for s in tensor.shape) for n in (1, 2, 3)]
                profile.set_shape(tensor.name, *shapes)
        config.add_optimization_profile(profile)
        plan: bytes | None = self.builder.build_serialized_network(network, config)
        return plan

    def sound_plan(self) -> bytes:
        network = self.network(cache_model())
        self.correct(network)
        plan = self.plan(network)
        assert plan is not None
        return plan


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a, t: setattr(a, "key_value_lengths", None), "cannot run .*LOWER_RIGHT"),
        (lambda a, t: setattr(a, "causal_kind", t.CausalMaskKind.UPPER_LEFT), "UPPER_LEFT"),
        (lambda a, t: setattr(a.key_value_lengths, "dtype", t.DataType.INT64), "must be INT32"),
    ],
)
def test_an_attention_it_cannot_express(
    world: World, damage: Callable[[Any, Any], None], message: str
) -> None:
    network = world.network(cache_model())
    damage(world.correct(network), world.trt)
    assert world.plan(network) is None
    assert re.search(message, world.said[-1])


def test_a_cache_without_a_static_length(world: World) -> None:
    network = world.network(cache_model("capacity"))
    world.correct(network)
    assert world.plan(network) is None
    assert "cache must be a network input of static length" in world.said[-1]


def test_a_cache_whose_update_is_no_output(world: World) -> None:
    model = cache_model()
    del model.graph.output[1:]
    network = world.network(model)
    world.correct(network)
    assert world.plan(network) is None
    assert "cache_out must be a network output" in world.said[-1]


def test_a_weakly_typed_network_and_a_missing_profile(world: World) -> None:
    network = world.network(cache_model(), flags=0)
    world.correct(network)
    assert world.plan(network) is None
    assert "strongly typed" in world.said[-1]
    network = world.network(cache_model())
    world.correct(network)
    assert world.plan(network, leave_out="x") is None
    assert "every profile" in world.said[-1]


@pytest.mark.parametrize(
    ("library", "version", "capability", "message"),
    [
        ("tensorrt", "10.16.2", "11.0", "version 10.16.1, expecting 10.16.2"),
        ("tensorrt", "10.16.1", "8.7", "is for"),
        ("tensorrt-rtx", "10.16.1", "11.0", "magic tag"),
    ],
)
def test_a_plan_of_something_else(
    world: World, library: str, version: str, capability: str, message: str
) -> None:
    other: Any = FakeTensorRT(library, version, FakeDevice(capability))
    assert other.Runtime(world.logger).deserialize_cuda_engine(world.sound_plan()) is None
    assert message in world.said[-1]


class Bound:
    """A context with everything in order."""

    def __init__(self, world: World) -> None:
        self.world, trt = world, world.trt
        engine = trt.Runtime(world.logger).deserialize_cuda_engine(world.sound_plan())
        strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
        self.context = engine.create_execution_context(strategy)
        self.memory = torch.zeros(8192, dtype=torch.uint8)
        self.tensors = {
            "x": torch.ones(1, 2, 3, 4, dtype=torch.float16),
            "cache": torch.zeros(1, 2, 8, 4, dtype=torch.float16),
            "write": torch.tensor([2]),
            "lengths": torch.tensor([5]),
            "y": torch.zeros(1, 2, 3, 4, dtype=torch.float16),
        }
        self.tensors["cache_out"] = self.tensors["cache"]
        assert self.context.set_optimization_profile_async(0, world.device.stream)
        address = -(-self.memory.data_ptr() // 256) * 256
        self.context.set_device_memory(address, 4096)
        for name, tensor in self.tensors.items():
            assert self.context.set_tensor_address(name, tensor.data_ptr())
            if name not in ("y", "cache_out"):
                assert self.context.set_input_shape(name, tuple(tensor.shape))

    def run(self) -> bool:
        with self.world.device.ordered():
            done: bool = self.context.execute_async_v3(self.world.device.stream)
        return done


def test_a_sound_run_updates_the_cache_where_it_is(world: World) -> None:
    bound = Bound(world)
    assert bound.run()
    assert bound.tensors["cache"][0, :, 2:5].eq(1).all()
    assert bound.tensors["cache"][0, :, 5:].eq(0).all()
    # The first row sees slots 0 to 2, of which one is not zero; the last sees all five.
    assert bound.tensors["y"][0, 0, 0, 0] < bound.tensors["y"][0, 0, 2, 0] < 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b.context.set_tensor_address("cache_out", 4096), "to the memory of cache"),
        (lambda b: b.context.set_optimization_profile_async(0, 1), "shapes not set"),
        (lambda b: b.context.set_device_memory(256, 10), "too small"),
        (lambda b: b.context._addresses.pop("y"), "addresses not set"),
    ],
)
def test_a_run_that_breaks_a_rule(
    world: World, damage: Callable[[Bound], Any], message: str
) -> None:
    bound = Bound(world)
    damage(bound)
    assert not bound.run()
    assert message in world.said[-1]


def test_names_shapes_and_streams_that_do_not_exist(world: World) -> None:
    bound = Bound(world)
    assert not bound.context.set_tensor_address("z", 8)
    assert not bound.context.set_input_shape("y", (1, 2, 3, 4))
    assert not bound.context.set_input_shape("x", (1, 2, 4, 4))  # the profile ends at 3
    assert not bound.context.set_input_shape("x", (1, 3, 3, 4))
    assert not bound.context.set_optimization_profile_async(1, world.device.stream)
    assert not bound.context.execute_async_v3(world.device.stream)  # not ordered
    with world.device.ordered():
        assert not bound.context.execute_async_v3(0)


def test_a_graph_needs_a_warm_up_and_keeps_its_addresses(world: World) -> None:
    bound, device = Bound(world), world.device
    stream = device.stream

    def enqueue() -> None:
        assert bound.context.execute_async_v3(stream)

    with device.ordered(), pytest.raises(AssertionError):
        device.capture(enqueue)
    assert bound.run()
    with device.ordered():
        replay = device.capture(enqueue)
        elsewhere = torch.zeros_like(bound.tensors["y"])
        bound.context.set_tensor_address("y", elsewhere.data_ptr())
        bound.tensors["y"].zero_()
        replay()
    assert bound.tensors["y"].any() and not elsewhere.any()
