"""Refusing requests before the board runs out of memory and starts to swap.

On a Jetson the GPU and the CPU share one memory, and the figure a GPU calls free counts the page
cache as used. So the kernel's MemAvailable decides; but while a driver is allocating, that figure
lags behind, so what this service holds itself is counted too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..errors import ApiError
from ..telemetry.memory import MemoryReading

MIB = 2**20
BYTES_PER_PIXEL = 24  # decoded RGB, its resized copy, and patches in fp32
RETRY_S = 10


class MemoryGuard:
    """Says whether one more request fits.

    Args:
        read: the memory of the machine now, ``None`` if it cannot be read.
        held: bytes this service holds, on the host and on a GPU that shares its memory.
        min_free: bytes that must stay free.
    """

    def __init__(
        self,
        read: Callable[[], MemoryReading | None],
        held: Callable[[], int],
        min_free: int,
    ) -> None:
        self._read = read
        self._held = held
        self._min_free = min_free

    def available(self) -> int | None:
        """Bytes that may still be taken; ``None`` where that is not known."""
        reading = self._read()
        if reading is None:
            return None
        return min(reading.available, reading.total - self._held())

    def shortage(self, needed: int) -> str | None:
        """Why ``needed`` bytes more are too many, or ``None``."""
        available = self.available()
        if available is None or available - needed >= self._min_free:
            return None
        return (
            f"not enough memory: {math.ceil(needed / MIB)} MiB are needed, {available // MIB} MiB"
            f" are available and {self._min_free // MIB} MiB must stay free"
        )

    def check(self, body_bytes: int, pixels: int) -> None:
        """Refuse a request that would not fit.

        Raises:
            ApiError: 503.
        """
        shortage = self.shortage(2 * body_bytes + BYTES_PER_PIXEL * pixels)
        if shortage is not None:
            raise ApiError(503, shortage, code="low_memory", retry_after=RETRY_S)
