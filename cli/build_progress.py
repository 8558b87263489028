"""How a build shows what it is doing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..builder import STEPS


@dataclass(frozen=True)
class BuildDisplay:
    """``step`` begins one of the build's steps, ``within`` says how far a long one is."""

    step: Callable[[str], None]
    within: Callable[[str, float], None]


@contextmanager
def build_display() -> Iterator[BuildDisplay]:
    """Bars where somebody watches, plain lines where a log does. Both go to stderr."""
    if not sys.stderr.isatty():
        yield BuildDisplay(
            lambda step: print(f"edgevlm build: {step}", file=sys.stderr, flush=True),
            lambda phase, fraction: None,
        )
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<40.40}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        whole = bar.add_task("", total=len(STEPS))
        inner = bar.add_task("", total=1.0, visible=False)

        def step(name: str) -> None:
            bar.update(whole, description=name, completed=STEPS.index(name))
            bar.update(inner, visible=False)

        def within(phase: str, fraction: float) -> None:
            bar.update(inner, description=f"  {phase}", completed=fraction, visible=True)

        yield BuildDisplay(step, within)
        bar.update(whole, description="done", completed=len(STEPS))
        bar.update(inner, visible=False)
