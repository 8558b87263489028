"""The machine's memory, and what processes hold of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .sysroot import Sysroot


@dataclass(frozen=True)
class MemoryReading:
    """Bytes. ``available`` is the kernel's estimate of what can be had without swapping."""

    total: int
    available: int
    swap_used: int = 0


def read_memory(sysroot: Sysroot) -> MemoryReading | None:
    """Read ``/proc/meminfo``; ``None`` where there is none."""
    text = sysroot.text("proc/meminfo") or ""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        return None
    swap = kib.get("SwapTotal", 0) - kib.get("SwapFree", 0)
    return MemoryReading(kib["MemTotal"] << 10, kib["MemAvailable"] << 10, swap << 10)


def resident_bytes(sysroot: Sysroot, pids: Iterable[int]) -> int:
    """Resident sets of these processes, in bytes; those that are gone count nothing."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in pids:
        fields = (sysroot.text(f"proc/{pid}/statm") or "").split()
        if len(fields) > 1:
            total += int(fields[1]) * page
    return total
