"""Telemetry of boards that are not here: trees of files as they have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgevlm.jetson.metrics import Metrics
from edgevlm.jetson.telemetry import Telemetry
from edgevlm.jetson.telemetry.jetson_stats import SOCKET, JetsonStats
from edgevlm.jetson.telemetry.memory import resident_bytes
from edgevlm.jetson.telemetry.nvml import Nvml
from edgevlm.jetson.telemetry.sysroot import Sysroot

MEMINFO = (
    "MemTotal:       8000000 kB\nMemFree:          100000 kB\nMemAvailable:   6000000 kB\n"
    "SwapTotal:       1000 kB\nSwapFree:         400 kB\n"
)
ORIN = {
    "proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit\0",
    "proc/meminfo": MEMINFO,
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic\n",
    "sys/class/hwmon/hwmon0/name": "tmp451\n",
    "sys/class/hwmon/hwmon1/name": "ina3221\n",
    "sys/class/hwmon/hwmon1/in1_label": "VDD_IN\n",
    "sys/class/hwmon/hwmon1/in1_input": "5000\n",
    "sys/class/hwmon/hwmon1/curr1_input": "1400\n",
    "sys/class/hwmon/hwmon1/in2_label": "VDD_CPU_GPU_CV\n",
    "sys/class/hwmon/hwmon1/in2_input": "5000\n",
    "sys/class/hwmon/hwmon1/curr2_input": "400\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "48500\n",
    "sys/class/thermal/thermal_zone1/type": "cv0-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "-256000\n",
    "sys/class/thermal/thermal_zone2/type": "gpu-thermal\n",
    "sys/class/devfreq/17000000.gpu/cur_freq": "306000000\n",
    "sys/class/devfreq/17000000.gpu/max_freq": "624750000\n",
    "sys/kernel/nvpmodel_clk_cap/emc": "2133000000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "729600\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1510400\n",
    "var/lib/nvpmodel/status": "pmode:0001 fmode:cool\n",
    "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=1 NAME=7W >\n",
}
THOR = {
    "proc/device-tree/model": "NVIDIA Jetson AGX Thor Developer Kit\0",
    "proc/meminfo": MEMINFO,
    "etc/nv_tegra_release": "# R39 (release), REVISION: 2.0, GCID: 1\n",
    "sys/class/hwmon/hwmon3/name": "ina238\n",
    "sys/class/hwmon/hwmon3/in1_label": "VIN\n",
    "sys/class/hwmon/hwmon3/power1_input": "41500000\n",
    "sys/class/devfreq/gpu-gpc-0/cur_freq": "1575000000\n",
    "sys/class/devfreq/bwmgr/max_freq": "4266000000\n",
    "var/lib/nvpmodel/status": "pmode:0003\n",
}
SPARK = {"sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark\n", "proc/meminfo": MEMINFO}
X86 = {"sys/class/dmi/id/product_name": "X570\n", "proc/meminfo": MEMINFO}


class FakeNvml:
    """NVML of a workstation, or of a board where nearly nothing is supported."""

    NVMLError = RuntimeError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, supported: bool) -> None:
        self._supported = supported

    def __getattr__(self, name: str) -> Any:
        values = {
            "nvmlInit": None,
            "nvmlDeviceGetHandleByIndex": 0,
            "nvmlDeviceGetName": "GPU",
            "nvmlDeviceGetPowerUsage": 120_500,
            "nvmlDeviceGetTemperature": 61.0,
            "nvmlDeviceGetClockInfo": 1800,
        }
        always = ("nvmlInit", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName")

        def call(*arguments: object) -> Any:
            if name not in values or not (self._supported or name in always):
                raise RuntimeError("Not Supported")
            return values[name]

        return call


def board(root: Path, files: dict[str, str], nvml: bool | None = None) -> Telemetry:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    library = FakeNvml(nvml) if nvml is not None else _NoNvml()
    return Telemetry(Sysroot(root), Nvml(library))


class _NoNvml:
    NVMLError = RuntimeError

    def nvmlInit(self) -> None:  # NVML's name
        raise RuntimeError("Driver Not Loaded")


def test_orin(tmp_path: Path) -> None:
    telemetry = board(tmp_path, ORIN, nvml=False)
    found = telemetry.board
    assert (found.kind, found.unified, found.l4t, found.jetpack) == ("orin", True, "36.4.3", "6.2")
    snapshot = telemetry.read()
    assert snapshot.rails == pytest.approx({"VDD_IN": 7.0, "VDD_CPU_GPU_CV": 2.0})
    assert snapshot.power_w == pytest.approx(7.0)  # not the sum: VDD_IN feeds the other
    assert snapshot.temperatures == {"cpu": 48.5}
    assert snapshot.clocks == {
        "gpu": 306e6,
        "gpu_max": 624.75e6,
        "emc_max": 2133e6,
        "cpu": 1510.4e6,
    }
    assert snapshot.power_mode == "7W"
    assert snapshot.memory is not None
    assert snapshot.memory.available == 6_000_000 << 10  # not MemFree
    assert snapshot.memory.swap_used == 600 << 10


def test_thor(tmp_path: Path) -> None:
    telemetry = board(tmp_path, THOR)
    assert (telemetry.board.kind, telemetry.board.jetpack) == ("thor", "7.2")
    snapshot = telemetry.read()
    assert snapshot.power_w == pytest.approx(41.5)
    assert snapshot.clocks == {"gpu": 1575e6, "emc_max": 4266e6}
    assert snapshot.power_mode == "3" and snapshot.hottest_c is None


def test_spark_and_workstation_are_read_through_nvml(tmp_path: Path) -> None:
    spark = board(tmp_path / "spark", SPARK, nvml=True)
    assert (spark.board.kind, spark.board.unified) == ("spark", True)
    x86 = board(tmp_path / "x86", X86, nvml=True)
    assert (x86.board.kind, x86.board.unified) == ("generic", False)
    snapshot = x86.read()
    assert snapshot.rails == {"gpu": 120.5} and snapshot.power_w == 120.5
    assert snapshot.temperatures == {"gpu": 61.0} and snapshot.clocks == {"gpu": 1.8e9}


def test_a_machine_that_says_nothing_reads_as_nothing(tmp_path: Path) -> None:
    snapshot = board(tmp_path, {}).read()
    assert snapshot.power_w is None and snapshot.memory is None
    assert (snapshot.rails, snapshot.temperatures, snapshot.clocks) == ({}, {}, {})


def test_sensors_may_appear_late(tmp_path: Path) -> None:
    telemetry = board(tmp_path, THOR)
    for path in (tmp_path / "sys/class/hwmon").rglob("*"):
        if path.is_file():
            path.unlink()
    assert telemetry.read().power_w is None
    board(tmp_path, THOR)
    assert telemetry.read().power_w == pytest.approx(41.5)


class FakeJtop:
    """The module ``jtop``."""

    def __init__(self, stats: Any) -> None:
        self.stats = stats

    def jtop(self) -> FakeJtop:
        return self

    def start(self) -> None:
        if self.stats is None:
            raise ConnectionError("no permission")


def test_jetson_stats_fills_gaps_where_its_service_runs(tmp_path: Path) -> None:
    stats = FakeJtop({"Power TOT": 9300, "nvp model": "MAXN"})
    sysroot = Sysroot(tmp_path)
    assert JetsonStats(sysroot, stats).total_power() is None  # no socket: not asked
    (tmp_path / SOCKET).parent.mkdir(parents=True)
    (tmp_path / SOCKET).touch()
    telemetry = Telemetry(sysroot, Nvml(_NoNvml()), JetsonStats(sysroot, stats))
    snapshot = telemetry.read()
    assert snapshot.power_w == 9.3 and snapshot.power_mode == "MAXN"
    broken = JetsonStats(sysroot, FakeJtop(None))
    assert broken.total_power() is None and broken.power_mode() is None


def test_resident_memory_of_processes(tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/statm").write_text("900 100 50 1 0 30 0\n")
    assert resident_bytes(Sysroot(tmp_path), [7, 8]) == 100 * 4096


def test_a_snapshot_becomes_series(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.board(board(tmp_path, ORIN).read(), 12.5, 1000, True)
    text = metrics.render().decode()
    for line in (
        'edgevlm_power_watts{rail="total"} 7.0',
        'edgevlm_temperature_celsius{zone="cpu"} 48.5',
        'edgevlm_power_mode_info{mode="7W"} 1.0',
        "edgevlm_energy_joules_total 12.5",
        "edgevlm_thermal_backoff 1.0",
        'edgevlm_requests_total{finish_reason="cancelled"} 0.0',
        'edgevlm_rejections_total{reason="queue_full"} 0.0',
    ):
        assert line in text
