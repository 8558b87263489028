"""Clocks and the power mode."""

from __future__ import annotations

import re

from .sysroot import Sysroot


def read_clocks(sysroot: Sysroot) -> dict[str, float]:
    """Hertz now, of what the board tells: ``gpu``, ``emc``, ``cpu``, and their caps as ``*_max``.

    The GPU's name differs by board: ``gpu-gpc-0`` on Thor, ``17000000.gpu`` on Orin. Some appear
    only once a driver is loaded, so they are looked for every time.
    """
    clocks: dict[str, float] = {}

    def note(name: str, value: float | None) -> None:
        if value is not None:
            clocks[name] = max(value, clocks.get(name, 0.0))

    for device in sysroot.folders("sys/class/devfreq/*"):
        kind = _kind(device.name)
        if kind is not None:
            note(kind, sysroot.number(device / "cur_freq"))
            note(f"{kind}_max", sysroot.number(device / "max_freq"))
    note("emc_max", sysroot.number("sys/kernel/nvpmodel_clk_cap/emc"))
    for core in sysroot.folders("sys/devices/system/cpu/cpu[0-9]*/cpufreq"):
        for name, file in (("cpu", "scaling_cur_freq"), ("cpu_max", "scaling_max_freq")):
            kilohertz = sysroot.number(core / file)
            note(name, None if kilohertz is None else kilohertz * 1e3)
    return clocks


def read_power_mode(sysroot: Sysroot) -> str | None:
    """The name of the power mode in force, such as ``30W``; its number if it has no name."""
    status = sysroot.text("var/lib/nvpmodel/status") or ""
    found = re.search(r"pmode:0*(\d+)", status)
    if found is None:
        return None
    models = sysroot.text("etc/nvpmodel.conf") or ""
    name = re.search(rf"<\s*POWER_MODEL\s+ID={found[1]}\s+NAME=(\S+)\s*>", models)
    return name[1] if name else found[1]


def _kind(device: str) -> str | None:
    if device.startswith("gpu-gpc") or device.endswith((".gpu", ".ga10b", ".gv11b")):
        return "gpu"
    return "emc" if device.startswith("bwmgr") else None
