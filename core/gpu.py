"""The GPU of this machine, if there is one, and the memory that is really free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")
# Kept for the system when a GPU takes its memory from it.
UNIFIED_RESERVE = 512 * 2**20


@dataclass(frozen=True)
class Gpu:
    """``unified``: its memory is the host's, as on every Jetson and on DGX Spark."""

    name: str
    compute_capability: str
    total_bytes: int
    unified: bool


def present_gpu(device: torch.device | None = None) -> Gpu | None:
    """The GPU torch would use; ``None`` where it sees none."""
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(device or torch.cuda.current_device())
    return Gpu(
        name=properties.name,
        compute_capability=f"{properties.major}.{properties.minor}",
        total_bytes=properties.total_memory,
        unified=bool(getattr(properties, "is_integrated", False)),
    )


def free_gpu_bytes(gpu: Gpu) -> int:
    """Memory that new allocations can have.

    On unified memory the driver counts the page cache as used, though the kernel gives it up on
    demand; the host's own figure does not, but lags while a large allocation is in flight. So it
    is capped by what this process has not taken itself.
    """
    if not gpu.unified:
        free, _ = torch.cuda.mem_get_info()
        return int(free)
    own = torch.cuda.memory_reserved()
    return max(0, min(host_available_bytes(), gpu.total_bytes - own - UNIFIED_RESERVE))


def host_available_bytes(meminfo: Path = MEMINFO) -> int:
    """``MemAvailable``: free memory and the caches the kernel would give up for it."""
    return _meminfo(meminfo)["MemAvailable"]


def host_total_bytes(meminfo: Path = MEMINFO) -> int:
    """``MemTotal``."""
    return _meminfo(meminfo)["MemTotal"]


def _meminfo(path: Path) -> dict[str, int]:
    rows = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) >= 2}
