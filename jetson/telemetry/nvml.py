"""What NVML knows of the GPU. On Orin most of it is not supported, and files decide instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GpuReading:
    """``None`` where NVML does not say. Watts, degrees Celsius, hertz, bytes, 0..1."""

    name: str | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_hz: float | None = None
    memory_free: int | None = None
    utilization: float | None = None


class Nvml:
    """The first GPU. A machine without driver or library reads as nothing.

    Args:
        library: the module ``pynvml``, or ``None`` to import it if there is one.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = library or _import()
        self._device: Any = None
        if self._library is not None:
            try:
                self._library.nvmlInit()
                self._device = self._library.nvmlDeviceGetHandleByIndex(0)
            except self._library.NVMLError:
                self._library = None

    def read(self) -> GpuReading:
        """The state now."""
        if self._library is None:
            return GpuReading()
        nvml, device = self._library, self._device
        name = self._ask(lambda: nvml.nvmlDeviceGetName(device))
        megahertz = self._ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM))
        milliwatts = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(device))
        load = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu)
        return GpuReading(
            name=name.decode() if isinstance(name, bytes) else name,
            power_w=None if milliwatts is None else milliwatts / 1e3,
            temperature_c=self._ask(
                lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
            ),
            clock_hz=None if megahertz is None else megahertz * 1e6,
            memory_free=self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device).free),
            utilization=None if load is None else load / 100,
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._library.NVMLError:  # not supported here, or the GPU fell off the bus
            return None


def _import() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml
