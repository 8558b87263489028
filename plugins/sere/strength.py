"""Re-routing that grows stronger as answers or batches do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...core import UsageError


@dataclass(frozen=True)
class Ramp:
    """Rises from 0 at ``start`` to 1 at ``end``.

    Raises:
        UsageError: the two are no integers with ``0 <= start < end``.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        whole = type(self.start) is int and type(self.end) is int
        if not (whole and 0 <= self.start < self.end):
            raise UsageError(
                "SERE: a ramp is two integers with 0 <= start < end, such as 64:256, got"
                f" {self.start!r}:{self.end!r}"
            )

    def at(self, value: int) -> float:
        """Between 0 and 1."""
        return min(1.0, max(0.0, (value - self.start) / (self.end - self.start)))

    @classmethod
    def parse(cls, raw: Any) -> Ramp:
        """Read ``"64:256"`` or ``[64, 256]``.

        Raises:
            UsageError: it is neither, or not such numbers.
        """
        edges = raw.split(":") if isinstance(raw, str) else raw
        if not isinstance(edges, list | tuple) or len(edges) != 2:
            raise UsageError(f"SERE: a ramp is START:END, such as 64:256, got {raw!r}")
        try:
            return cls(*(int(edge) if isinstance(edge, str) else edge for edge in edges))
        except ValueError:
            raise UsageError(f"SERE: a ramp is START:END, such as 64:256, got {raw!r}") from None


def fall(start: float, end: float | None, risen: float) -> float:
    """``start`` where nothing has risen or there is no ``end``; ``end`` at 1."""
    return start if end is None else start + (end - start) * risen


def fall_whole(start: int, end: int | None, risen: float) -> int:
    """The same in integers: rounded up, so never further than it has risen."""
    return math.ceil(fall(start, end, risen) - 1e-9)
