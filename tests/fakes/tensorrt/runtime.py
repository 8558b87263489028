"""The runtime: plans to engines, engines to contexts, contexts to work on the device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .device import FakeDevice
from .enums import DataType, ExecutionContextAllocationStrategy, Severity, TensorIOMode
from .plan import Executable, Plan

ACTIVATION_BYTES = (3000, 1000)  # of each profile
_DTYPES = {
    torch.float32: DataType.FLOAT,
    torch.float16: DataType.HALF,
    torch.bfloat16: DataType.BF16,
    torch.int64: DataType.INT64,
    torch.bool: DataType.BOOL,
}


class Runtime:
    """``library``, ``version`` and ``device`` are set by :class:`FakeTensorRT`."""

    library: str
    version: str
    device: FakeDevice

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def deserialize_cuda_engine(self, data: Any) -> CudaEngine | None:
        content = bytes(memoryview(data))
        plan = Plan.from_bytes(content)
        if plan is None or plan.library != self.library:
            return self._refuse("the plan's magic tag does not match")
        if plan.version != self.version:
            return self._refuse(f"the plan is of version {plan.version}, expecting {self.version}")
        if self.device.compute_capability not in plan.capabilities:
            return self._refuse(f"the plan is for {plan.capabilities}")
        if len(content) > self.device.free_bytes:
            return self._refuse("Error Code 2: OutOfMemory (no further information)")
        return CudaEngine(plan, self._logger, self.device)

    def _refuse(self, text: str) -> None:
        self._logger.log(Severity.ERROR, text)


class RuntimeCache:
    def __init__(self, version: str) -> None:
        self._own = f"kernels of {version}".encode()
        self.loaded = False

    def deserialize(self, data: bytes) -> bool:
        self.loaded = bytes(data) == self._own
        return self.loaded

    def serialize(self) -> bytes:
        return self._own


class RuntimeConfig:
    def __init__(self, version: str) -> None:
        self._version = version
        self.strategy = ExecutionContextAllocationStrategy.STATIC
        self.dynamic_shapes_kernel_specialization_strategy: Any = None
        self.cache: RuntimeCache | None = None

    def create_runtime_cache(self) -> RuntimeCache:
        return RuntimeCache(self._version)

    def set_runtime_cache(self, cache: RuntimeCache) -> None:
        self.cache = cache

    def set_execution_context_allocation_strategy(
        self, strategy: ExecutionContextAllocationStrategy
    ) -> None:
        self.strategy = strategy


class CudaEngine:
    def __init__(self, plan: Plan, logger: Any, device: FakeDevice) -> None:
        self.plan, self.logger, self.device = plan, logger, device
        self.executable = Executable(plan.model)
        self.inputs = {port.name: port for port in self.executable.inputs}
        self.ports = self.inputs | {port.name: port for port in self.executable.outputs}
        self.num_optimization_profiles = len(plan.profiles)
        self.num_io_tensors = len(self.ports)

    def get_tensor_name(self, index: int) -> str:
        return list(self.ports)[index]

    def get_tensor_dtype(self, name: str) -> DataType:
        return _DTYPES[self.ports[name].dtype]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name in self.inputs else TensorIOMode.OUTPUT

    def get_tensor_profile_shape(self, name: str, profile: int) -> Any:
        shape = self.inputs[name].shape
        return self.plan.profiles[profile].get(name, (shape, shape, shape))

    def get_device_memory_size_for_profile_v2(self, profile: int) -> int:
        return ACTIVATION_BYTES[profile]

    def create_runtime_config(self) -> RuntimeConfig:
        return RuntimeConfig(self.plan.version)

    def create_execution_context(self, argument: Any) -> ExecutionContext:
        strategy = argument.strategy if isinstance(argument, RuntimeConfig) else argument
        return ExecutionContext(self, strategy)


class ExecutionContext:
    def __init__(self, engine: CudaEngine, strategy: ExecutionContextAllocationStrategy) -> None:
        self._engine, self._strategy = engine, strategy
        self._profile: int | None = None
        self._memory = (0, 0)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._warm: dict[str, tuple[int, ...]] | None = None  # shapes of the last eager run

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        if not 0 <= profile < self._engine.num_optimization_profiles:
            return self._refuse(f"there is no profile {profile}")
        self._profile = profile
        self._shapes = {}
        return True

    def set_device_memory(self, address: int, size: int) -> None:
        assert address % 256 == 0, "activation memory must be aligned to 256 bytes"
        self._memory = (address, size)

    def set_input_shape(self, name: str, shape: Iterable[int]) -> bool:
        if name not in self._engine.inputs or self._profile is None:
            return self._refuse(f"{name} is not an input, or no profile was selected")
        low, _, high = self._engine.get_tensor_profile_shape(name, self._profile)
        sizes = tuple(shape)
        if len(sizes) != len(low) or not all(
            a <= n <= b for a, n, b in zip(low, sizes, high, strict=True)
        ):
            return self._refuse(f"{name}: {sizes} is outside the profile")
        self._shapes[name] = sizes
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        if name not in self._engine.ports:
            return self._refuse(f"there is no tensor {name}")
        self._addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        problem = self._problem(stream)
        if problem:
            return self._refuse(problem)
        engine, device = self._engine, self._engine.device
        shapes = {n: self._shapes.get(n, port.shape) for n, port in engine.inputs.items()}
        addresses = dict(self._addresses)
        if device.recording is None:
            self._warm = shapes
        elif self._warm != shapes:
            return self._refuse("a capture must follow a run with the same shapes")
        device.submit(lambda: engine.executable.run(shapes, addresses))
        return True

    def _problem(self, stream: int) -> str | None:
        engine = self._engine
        if stream != engine.device.stream or not engine.device.in_order:
            return "work was enqueued off the stream, or out of order"
        if self._profile is None:
            return "no profile was selected"
        if self._strategy is not ExecutionContextAllocationStrategy.USER_MANAGED:
            return "activation memory was to be the user's"
        if self._memory[1] < engine.get_device_memory_size_for_profile_v2(self._profile):
            return f"activation memory of {self._memory[1]} bytes is too small"
        unset = [n for n in engine.plan.profiles[self._profile] if n not in self._shapes]
        unbound = [n for n in engine.ports if not self._addresses.get(n)]
        if unset or unbound:
            return f"shapes not set: {unset}; addresses not set: {unbound}"
        for output, source in engine.plan.aliases.items():
            if self._addresses[output] != self._addresses[source]:
                return f"{output} must be bound to the memory of {source}"
        return None

    def _refuse(self, text: str) -> bool:
        self._engine.logger.log(Severity.ERROR, text)
        return False
