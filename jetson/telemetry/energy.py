"""Energy, and each request's part of it."""

from __future__ import annotations


class EnergyMeter:
    """Integrates power over time; while requests run together, they share it equally.

    Between readings the last one holds. Times are seconds of any steady clock.
    """

    def __init__(self) -> None:
        self._watts: float | None = None
        self._since = 0.0
        self._share = 0.0
        self.total_j = 0.0

    def observe(self, watts: float | None, now: float, sharers: int) -> None:
        """Take a reading of the power, with ``sharers`` requests running since the last call."""
        self._advance(now, sharers)
        self._watts = watts

    def share(self, now: float, sharers: int) -> float | None:
        """Joules that a request running all along would have had, up to now.

        A request's own energy is the difference between two calls. Call this whenever the number
        of requests is about to change, with the number up to now.

        Returns:
            ``None`` without a power sensor.
        """
        self._advance(now, sharers)
        return None if self._watts is None else self._share

    def _advance(self, now: float, sharers: int) -> None:
        if self._watts is not None:
            joules = self._watts * max(0.0, now - self._since)
            self.total_j += joules
            self._share += joules / max(1, sharers)
        self._since = now
