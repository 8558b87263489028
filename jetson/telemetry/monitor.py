"""Reading the board again and again beside everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..logs import log_failure
from .snapshot import Snapshot, Telemetry


class Monitor:
    """Keeps the latest snapshot.

    Args:
        on_snapshot: called in the event loop with each new one.
    """

    def __init__(
        self, telemetry: Telemetry, interval_s: float, on_snapshot: Callable[[Snapshot], None]
    ) -> None:
        self.telemetry = telemetry
        self._interval_s = interval_s
        self._on_snapshot = on_snapshot
        self.latest: Snapshot | None = None

    async def run(self) -> None:
        """Read until cancelled. A reading that fails is logged and changes nothing."""
        while True:
            try:
                self.latest = await asyncio.to_thread(self.telemetry.read)
                self._on_snapshot(self.latest)
            except Exception as error:  # a sensor must not end the service
                log_failure("telemetry_failed", error)
            await asyncio.sleep(self._interval_s)
