"""Power from the board's own sensors: INA3221 (voltage and current) and INA238 (power)."""

from __future__ import annotations

from pathlib import Path

from .sysroot import Sysroot

TOTAL_RAILS = ("VDD_IN", "VIN")
"""Rails that feed the whole module; on boards without one, the total is the sum of all rails."""
_CHIPS = ("ina3221", "ina238", "ina219", "ina226")


def read_rails(sysroot: Sysroot) -> dict[str, float]:
    """Watts by rail name; empty where there are no such sensors."""
    rails: dict[str, float] = {}
    for chip in sysroot.folders("sys/class/hwmon/hwmon*"):
        name = sysroot.text(chip / "name")
        if name not in _CHIPS:
            continue
        rails.update(_direct(sysroot, chip, name))
        for channel in range(1, 5):
            label = sysroot.text(chip / f"in{channel}_label")
            millivolts = sysroot.number(chip / f"in{channel}_input")
            milliamperes = sysroot.number(chip / f"curr{channel}_input")
            if label and label not in rails and millivolts is not None and milliamperes is not None:
                rails[label] = millivolts * milliamperes * 1e-6
    return rails


def total_power(rails: dict[str, float]) -> float | None:
    """Watts of the whole module; ``None`` where nothing was read."""
    for rail in TOTAL_RAILS:
        if rail in rails:
            return rails[rail]
    return sum(rails.values()) if rails else None


def _direct(sysroot: Sysroot, chip: Path, name: str) -> dict[str, float]:
    """Chips that multiply themselves report microwatts."""
    microwatts = sysroot.number(chip / "power1_input")
    if microwatts is None:
        return {}
    label = sysroot.text(chip / "power1_label") or sysroot.text(chip / "in1_label") or name
    return {label: microwatts * 1e-6}
