"""How a calibration shows how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..plugins.sere.calibration import Progress


@contextmanager
def calibration_display() -> Iterator[Progress]:
    """A bar where somebody watches, a line per layer where a log does. Both go to stderr."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=1.0)

        def show(layer: int, layers: int, done: float) -> None:
            bar.update(task, description=f"layer {layer + 1} of {layers}", completed=done)

        yield show


class _Lines:
    """Says each layer once, with the time that is left at the pace so far."""

    def __init__(self) -> None:
        self._layer = -1
        self._begin: tuple[float, float] | None = None  # time and work done at the first call

    def __call__(self, layer: int, layers: int, done: float) -> None:
        now = time.monotonic()
        self._begin = self._begin or (now, done)
        if layer == self._layer:
            return
        self._layer = layer
        line = f"edgevlm calibrate: layer {layer + 1} of {layers}"
        passed, advanced = now - self._begin[0], done - self._begin[1]
        if advanced > 0:
            line += f", {passed / advanced * (1 - done):.0f} s left"
        print(line, file=sys.stderr, flush=True)
