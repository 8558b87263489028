"""A live service on a board that is only files: memory, heat and energy decide and are counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from edgevlm.jetson.telemetry import Telemetry
from edgevlm.jetson.telemetry.nvml import Nvml
from edgevlm.jetson.telemetry.sysroot import Sysroot

from .conftest import SCRIPTED
from .live import LiveService, wait_until
from .test_faults import SLOW, open_stream, running
from .test_telemetry import ORIN, _NoNvml

POWER = "sys/class/hwmon/hwmon1/curr1_input"
HEAT = "sys/class/thermal/thermal_zone0/temp"


class Board:
    """Files that can be changed while the service looks at them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        for name, text in ORIN.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def memory(self, available_mib: int) -> None:
        kib = available_mib * 1024
        self.write("proc/meminfo", f"MemTotal: 8000000 kB\nMemAvailable: {kib} kB\n")

    @property
    def telemetry(self) -> Telemetry:
        return Telemetry(Sysroot(self._root), Nvml(_NoNvml()))


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


@pytest.fixture
def live(engine: Path, importable: None, board: Board) -> Iterator[LiveService]:
    board.memory(100)
    parts = {**SCRIPTED, "telemetry": board.telemetry}
    settings = {"min_free_memory_mb": 256, "thermal_limit_c": 80.0, "telemetry_interval_s": 0.05}
    with LiveService(engine, parts, wait=False, **settings) as service:
        yield service


def test_memory_heat_and_energy(live: LiveService, board: Board) -> None:
    # Not opened while there is no room for it, and the probe says so.
    wait_until(lambda: "not enough memory" in live.service.state.reason)
    ready = httpx.get(f"{live.url}/health/ready")
    assert ready.status_code == 503 and "MiB must stay free" in ready.json()["reason"]
    board.memory(4000)
    live.wait_ready()

    # A request is refused before the board would swap.
    assert live.chat("say:yes").status_code == 200
    board.memory(200)
    refused = live.chat("say:yes")
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "low_memory"
    assert refused.headers["retry-after"] == "10"
    assert live.metric("rejections_total", reason="low_memory") == 1
    board.memory(4000)

    # Energy: seven watts, some of which each request gets.
    assert live.metric("power_watts", rail="total") == pytest.approx(7.0)
    assert live.metric("request_energy_joules_count") >= 1
    before = live.metric("request_energy_joules_sum")
    live.chat("slow: say:" + "word " * 10)
    assert live.metric("request_energy_joules_sum") - before > 0.2
    assert live.metric("energy_joules_total") > 0

    # Heat: one request at a time.
    board.write(HEAT, "81000")
    wait_until(lambda: live.service.thermal.hot)
    streams = [open_stream(live, SLOW) for _ in range(3)]
    wait_until(lambda: live.service.dispatcher.waiting == 2)
    assert running(live) == 1
    board.write(HEAT, "60000")
    wait_until(lambda: running(live) == 3)  # two slots, and one prepared
    for stream in streams:
        stream.close()
    text = httpx.get(f"{live.url}/metrics").text
    assert 'edgevlm_temperature_celsius{zone="cpu"} 60.0' in text
    assert 'edgevlm_power_mode_info{mode="7W"} 1.0' in text


def test_the_openapi_document_is_served(scripted: LiveService) -> None:
    document = json.loads(httpx.get(f"{scripted.url}/openapi.json").text)
    assert "/v1/chat/completions" in document["paths"]
