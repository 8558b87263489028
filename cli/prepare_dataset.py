"""``prepare_dataset``: a published data set, or drawn scenes, as JSON lines and image files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..accuracy.datasets import PUBLISHED, prepare_published, prepare_tiny
from ..core import UsageError
from .errors import run_reporting_errors

_TINY = "tiny"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument("--dataset", required=True, choices=[*PUBLISHED, _TINY])
    parser.add_argument("--output_dir", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--data_dir", type=Path, metavar="DIR", help="the local copy; default: data/<dataset>"
    )
    parser.add_argument("--split", default="validation", help="of MMMU: dev, validation")
    drawn = parser.add_argument_group("tiny: held-out scenes of the bundled checkpoints")
    drawn.add_argument("--samples", type=int, default=500, metavar="N", help="of every task")
    drawn.add_argument("--seed", type=int, default=0)
    drawn.add_argument("--workers", type=int, default=1, metavar="N", help="processes that draw")


def run(arguments: argparse.Namespace) -> int:
    """Prepare it; 0: every row was used, 1: some could not be, 2: wrong usage."""
    for flag in ("samples", "workers"):
        if getattr(arguments, flag) < 1:
            raise UsageError(f"--{flag} must be at least 1, got {getattr(arguments, flag)}")
    name, output = arguments.dataset, arguments.output_dir
    if name == _TINY:
        made = prepare_tiny(output, arguments.samples, arguments.seed, arguments.workers)
    else:
        folder = arguments.data_dir or Path("data") / name
        made = prepare_published(name, folder, output, arguments.split)
    for problem in made.problems:
        print(f"warning: {problem}", file=sys.stderr)
    print(f"{made.samples} samples: {made.path}")
    return int(bool(made.problems))


def main(argv: Sequence[str] | None = None) -> int:
    """The console script ``prepare_dataset``."""
    parser = argparse.ArgumentParser(
        prog="prepare_dataset", description="Make a data set for the accuracy commands."
    )
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    return run_reporting_errors(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
