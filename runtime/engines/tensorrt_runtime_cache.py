"""Kernels that TensorRT for RTX compiled on this GPU, kept beside the engine."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from ...core.tensorrt_library import TensorRTLibrary
from .tensorrt_device import Device


class RuntimeCache:
    """One engine's cache. Its file is named after the library version and the GPU it is good for.

    The cache only saves time: one that cannot be read or written is done without.
    """

    def __init__(
        self, engine: Any, library: TensorRTLibrary, device: Device, directory: Path
    ) -> None:
        gpu = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
        self._path = directory / f"runtime-cache-{library.version}-{gpu}.bin"
        self._engine = engine
        self._cache = engine.create_runtime_config().create_runtime_cache()
        with contextlib.suppress(OSError):
            self._cache.deserialize(self._path.read_bytes())  # refuses what does not fit

    def context_configuration(self, trt: Any, fixed_shapes: bool) -> Any:
        """The configuration of a context that uses this cache."""
        configuration = self._engine.create_runtime_config()
        configuration.set_execution_context_allocation_strategy(
            trt.ExecutionContextAllocationStrategy.USER_MANAGED
        )
        configuration.set_runtime_cache(self._cache)
        strategy = trt.DynamicShapesKernelSpecializationStrategy
        # Eager compiles for a new shape before its first run; lazy runs a general kernel until
        # the special one is ready, which a captured graph would never change to.
        configuration.dynamic_shapes_kernel_specialization_strategy = (
            strategy.EAGER if fixed_shapes else strategy.LAZY
        )
        return configuration

    def save(self) -> None:
        with contextlib.suppress(OSError):
            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            temporary.write_bytes(memoryview(self._cache.serialize()))
            temporary.replace(self._path)
