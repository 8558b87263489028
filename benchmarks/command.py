"""The command line that the benchmarks of kernels share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from ..core import exit_status
from .device import open_device
from .timing import Timer

_Plan = TypeVar("_Plan")


def command(
    module: str,
    plans: tuple[_Plan, _Plan],
    run: Callable[[_Plan, Timer, Path | None], None],
    argv: Sequence[str] | None,
    *,
    repeats: int,
    check_device: Callable[[torch.device], None] = lambda device: None,
) -> int:
    """Parse ``argv``, run the benchmark, and return the exit status.

    Args:
        module: that is run with ``python -m``.
        plans: what is measured, in earnest and with ``--toy``.
        run: check, measure, print, and write the file that is named, if one is.
        repeats: measurements per median, unless the command line says otherwise.
        check_device: refuses a device by a ``UsageError``.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--output", type=Path, help="write everything as JSON to this file")
    parser.add_argument("--device", default="cuda", help="torch device (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=repeats, help="measurements per median")
    parser.add_argument("--toy", action="store_true", help="tiny shapes, to see that it runs")
    arguments = parser.parse_args(argv)

    def benchmark() -> None:
        device = open_device(arguments.device)
        check_device(device)
        timer = Timer(device, arguments.repeats, min(3, arguments.repeats))
        run(plans[arguments.toy], timer, arguments.output)

    return exit_status(benchmark)
