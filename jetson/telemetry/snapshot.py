"""One reading of everything."""

from __future__ import annotations

from dataclasses import dataclass

from .board import read_board
from .clocks import read_clocks, read_power_mode
from .heat import read_temperatures
from .jetson_stats import JetsonStats
from .memory import MemoryReading, read_memory
from .nvml import GpuReading, Nvml
from .power import read_rails, total_power
from .sysroot import Sysroot


@dataclass(frozen=True)
class Snapshot:
    """Watts by rail and in all, degrees Celsius by zone, hertz, bytes. Empty where unknown."""

    rails: dict[str, float]
    power_w: float | None
    temperatures: dict[str, float]
    clocks: dict[str, float]
    power_mode: str | None
    memory: MemoryReading | None
    gpu: GpuReading

    @property
    def hottest_c(self) -> float | None:
        """The highest temperature; ``None`` without a sensor."""
        return max(self.temperatures.values(), default=None)


class Telemetry:
    """Reads one machine."""

    def __init__(
        self,
        sysroot: Sysroot | None = None,
        nvml: Nvml | None = None,
        jetson_stats: JetsonStats | None = None,
    ) -> None:
        self.sysroot = sysroot or Sysroot()
        self.board = read_board(self.sysroot)
        self._nvml = nvml or Nvml()
        self._jetson_stats = jetson_stats or JetsonStats(self.sysroot)

    def read(self) -> Snapshot:
        """Read everything now. Some sensors take milliseconds: not for an event loop."""
        rails = read_rails(self.sysroot)
        gpu = self._nvml.read()
        power = total_power(rails) or self._jetson_stats.total_power()
        if power is None and gpu.power_w is not None:
            rails = {"gpu": gpu.power_w}
            power = gpu.power_w
        temperatures = read_temperatures(self.sysroot)
        clocks = read_clocks(self.sysroot)
        if gpu.temperature_c is not None:
            temperatures.setdefault("gpu", gpu.temperature_c)
        if gpu.clock_hz is not None:
            clocks.setdefault("gpu", gpu.clock_hz)
        mode = read_power_mode(self.sysroot) or self._jetson_stats.power_mode()
        memory = read_memory(self.sysroot)
        return Snapshot(rails, power, temperatures, clocks, mode, memory, gpu)
