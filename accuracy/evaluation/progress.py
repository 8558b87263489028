"""How far a run is and how long it will take, on stderr."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_EVERY_S = {True: 0.2, False: 15.0}  # on a terminal, in a log


class Progress:
    """Counts answers. On a terminal one line is overwritten, elsewhere lines are rare."""

    def __init__(self, total: int, done: int, stream: TextIO | None = None) -> None:
        self._total, self._done = total, done
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._from, self._begin = done, time.monotonic()
        self._shown = self._begin

    def add(self, count: int) -> None:
        """Count new answers and show them, if that is due."""
        self._done += count
        now = time.monotonic()
        if self._done >= self._total or now - self._shown >= _EVERY_S[self._terminal]:
            self._shown = now
            self._show(now - self._begin)

    def _show(self, seconds: float) -> None:
        speed = (self._done - self._from) / seconds if seconds else 0.0
        line = f"{self._done:,} of {self._total:,} answers, {speed:.1f}/s"
        if speed and self._done < self._total:
            line += f", {duration((self._total - self._done) / speed)} left"
        last = self._done >= self._total
        if self._terminal:
            self._stream.write(f"\r\x1b[K{line}" + ("\n" if last else ""))
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()


def duration(seconds: float) -> str:
    """Seconds as a person says it: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
