"""Byte counts for people."""

from __future__ import annotations


def size(count: int) -> str:
    """Bytes in decimal units, such as ``"3.5 GB"``."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
