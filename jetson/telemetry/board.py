"""Which board this is, and its software."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .sysroot import Sysroot

_JETPACK = {
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.5.0": "6.2.2",
    "39.2.0": "7.2",
    "39.2.1": "7.2.1",
}


@dataclass(frozen=True)
class Board:
    """``kind`` is ``thor``, ``orin``, ``spark`` or ``generic``; ``unified`` says whether CPU and
    GPU share one memory. ``l4t`` and ``jetpack`` are ``None`` off Jetson or where unknown.
    """

    kind: str
    model: str
    unified: bool
    l4t: str | None = None
    jetpack: str | None = None


def read_board(sysroot: Sysroot) -> Board:
    """Look at the device tree (Jetson) or the DMI tables (everything else)."""
    model = sysroot.text("proc/device-tree/model")
    if model and ("Jetson" in model or "Thor" in model or "Orin" in model):
        kind = "thor" if "Thor" in model else "orin" if "Orin" in model else "generic"
        l4t = _l4t(sysroot)
        return Board(kind, model, True, l4t, _JETPACK.get(l4t or ""))
    product = sysroot.text("sys/class/dmi/id/product_name") or model or "unknown"
    spark = re.search(r"DGX[ _-]?Spark|GB10", product, re.IGNORECASE) is not None
    return Board("spark" if spark else "generic", product, spark)


def _l4t(sysroot: Sysroot) -> str | None:
    """``# R36 (release), REVISION: 4.3, ...`` becomes ``36.4.3``."""
    line = sysroot.text("etc/nv_tegra_release") or ""
    found = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", line)
    return f"{found[1]}.{found[2]}" if found else None
