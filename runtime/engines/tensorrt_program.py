"""One plan file, loaded: the engine, its activation memory, and a context per profile."""

from __future__ import annotations

import mmap
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...core import EngineError
from ...core.capabilities import TENSORRT_RTX
from ...core.tensorrt_library import TensorRTLibrary
from .tensorrt_context import ProfileContext
from .tensorrt_device import Device
from .tensorrt_runtime_cache import RuntimeCache

_ALIGNMENT = 256  # bytes, of activation memory


class TensorRTProgram:
    """Contexts of one program share activation memory, so they run one at a time.

    The memory is torch's, like every other allocation of ours, so one allocator knows all of it;
    it is as large as the larger of the profiles needs.

    Raises:
        EngineError: the library refuses the plan, or memory runs out.
    """

    def __init__(self, library: TensorRTLibrary, plan: Path, device: Device) -> None:
        self._trt, self._device = library.trt, device
        self._log: list[str] = []
        self._logger = _make_logger(self._trt, self._log)
        self._runtime = self._trt.Runtime(self._logger)
        self._engine = self._load(library, plan)
        self._cache: RuntimeCache | None = None
        if library.name == TENSORRT_RTX:
            self._cache = RuntimeCache(self._engine, library, device, plan.parent)
            # Kept when the engine is let go, at the latest when the process ends.
            weakref.finalize(self, self._cache.save)
        profiles = range(self._engine.num_optimization_profiles)
        sizes = [self._engine.get_device_memory_size_for_profile_v2(p) for p in profiles]
        self._activations = allocate(max(*sizes, 1) + _ALIGNMENT, device, "activations")

    def context(self, profile: int, *, fixed_shapes: bool) -> ProfileContext:
        """A context for one profile.

        Args:
            fixed_shapes: the same few shapes come again and again, and their kernels are worth
                waiting for; otherwise new shapes arrive all the time and must not stall.

        Raises:
            EngineError: the library cannot make one.
        """
        if self._cache is not None:
            argument = self._cache.context_configuration(self._trt, fixed_shapes)
        else:
            argument = self._trt.ExecutionContextAllocationStrategy.USER_MANAGED
        context = self._engine.create_execution_context(argument)
        if context is None:
            raise EngineError(f"TensorRT cannot make an execution context: {self.reason()}")
        address = -(-self._activations.data_ptr() // _ALIGNMENT) * _ALIGNMENT
        context.set_device_memory(address, self._activations.numel() - _ALIGNMENT)
        return ProfileContext(self._engine, context, profile, self._device, self.reason)

    def reason(self) -> str:
        """The library's last complaint, in one line."""
        return " ".join(self._log[-1].split()) if self._log else "no reason given"

    def _load(self, library: TensorRTLibrary, plan: Path) -> Any:
        with plan.open("rb") as file:
            # Mapped: the library copies weights to the device from the page cache.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with mapped:
            engine = self._runtime.deserialize_cuda_engine(mapped)
        if engine is None:
            reason = self.reason()
            if "memory" in reason.lower():
                reason = f"out of device memory ({reason}); free some or use a smaller model"
            raise EngineError(f"{plan}: {library.title} cannot load it: {reason}")
        return engine


def allocate(size: int, device: Device, what: str) -> Tensor:
    """``size`` bytes of device memory.

    Raises:
        EngineError: there is not so much.
    """
    try:
        return torch.empty(size, dtype=torch.uint8, device=device.torch_device)
    except torch.OutOfMemoryError:
        raise out_of_memory(what, size) from None


def out_of_memory(what: str, size: int) -> EngineError:
    """The error for an allocation of ``size`` bytes that failed."""
    return EngineError(
        f"out of device memory: the {what} take {size / 1e9:.2f} GB; close other programs or"
        " rebuild with a smaller --max-kv-len, --max-batch or --max-input-len (`edgevlm estimate`"
        " counts)"
    )


def _make_logger(trt: Any, log: list[str]) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]  # a class known only at run time
        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.ERROR:
                log.append(message)

    return Logger()
