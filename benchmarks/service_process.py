"""A service in processes of its own, and the memory they hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_START_S = 120.0
_MIB = 2**20


@dataclass(frozen=True)
class RunningService:
    """Where it is, and its two processes."""

    url: str
    pid: int

    def resident_mib(self) -> dict[str, float]:
        """Resident memory of both processes, in MiB."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        pids = {"http": str(self.pid), "engine": children[0]}
        return {name: _resident(pid) / _MIB for name, pid in pids.items()}


@contextlib.contextmanager
def running_service(engine: Path, slots: int) -> Iterator[RunningService]:
    """Start ``edgevlm serve`` and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "edgevlm.cli.main", "serve", "--engine", str(engine)]
    command += ["--port", str(port), "--slots", str(slots)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _START_S
        while not _answers(f"{url}/health/ready"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the service did not start")
            time.sleep(0.1)
        yield RunningService(url, process.pid)
    finally:
        process.terminate()
        process.wait(60)


@dataclass
class MemoryLog:
    """Resident memory over time, in MiB."""

    service: RunningService
    every_s: float = 1.0
    readings: list[dict[str, float]] = field(default_factory=list)

    async def watch(self) -> None:
        """Read until cancelled."""
        while True:
            self.readings.append(self.service.resident_mib())
            await asyncio.sleep(self.every_s)

    def quarters(self, process: str) -> list[float]:
        """The median of each quarter of the run: images in flight come and go, a leak stays."""
        values = [reading[process] for reading in self.readings]
        size = max(1, len(values) // 4)
        parts = [values[i * size : (i + 1) * size] or values[-1:] for i in range(4)]
        return [round(statistics.median(part), 1) for part in parts]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _resident(pid: str) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
