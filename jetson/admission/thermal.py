"""Backing off while the board is hot."""

from __future__ import annotations

HYSTERESIS_C = 5.0


class ThermalGuard:
    """Lowers the number of requests that run together while it is too hot.

    Args:
        limit_c: above this it is hot, until it is 5 degrees below. ``None`` switches this off.
    """

    def __init__(self, limit_c: float | None) -> None:
        self._limit_c = limit_c
        self.hot = False

    def observe(self, hottest_c: float | None) -> None:
        """Take a reading; without one, nothing changes."""
        if self._limit_c is None or hottest_c is None:
            return
        if hottest_c >= self._limit_c:
            self.hot = True
        elif hottest_c < self._limit_c - HYSTERESIS_C:
            self.hot = False

    def slots(self, slots: int) -> int:
        """How many of ``slots`` may be used now."""
        return 1 if self.hot else slots
