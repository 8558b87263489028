"""Temperatures of the kernel's thermal zones."""

from __future__ import annotations

from .sysroot import Sysroot

_ABSURD_C = (-40.0, 150.0)  # zones that are switched off may report nonsense


def read_temperatures(sysroot: Sysroot) -> dict[str, float]:
    """Degrees Celsius by zone; zones that cannot be read now are left out."""
    found = {}
    for zone in sysroot.folders("sys/class/thermal/thermal_zone*"):
        millidegrees = sysroot.number(zone / "temp")
        name = (sysroot.text(zone / "type") or zone.name).removesuffix("-thermal")
        if millidegrees is not None and _ABSURD_C[0] < millidegrees / 1000 < _ABSURD_C[1]:
            found[name] = millidegrees / 1000
    return found
