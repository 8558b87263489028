"""``edgevlm verify``: does an engine compute what its checkpoint says?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..runtime.parity import ParityReport, verify_engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument("engine", type=Path, help="engine directory, with llm/ and visual/ in it")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="the checkpoint, if it is no longer where the build found it",
    )
    parser.add_argument("--device", help="cuda, cuda:1, ... (default: the first)")
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="let a failing engine be used nevertheless",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Compare, print and record the figures; returns 1 where they are out of bounds."""
    report = verify_engine(args.engine, args.checkpoint, args.device, accept=args.allow_unverified)
    if args.json:
        print(json.dumps({"parts": report.figures, "problems": report.problems}, indent=2))
    else:
        print("\n".join(lines(report)))
    for problem in report.problems:
        print(f"error: {args.engine}: {problem}", file=sys.stderr)
    return 1 if report.problems and not args.allow_unverified else 0


def lines(report: ParityReport) -> list[str]:
    """One line per figure."""
    return [
        f"{kind:6} {name:26} {value:.6g}"
        for kind, figures in report.figures.items()
        for name, value in figures.items()
    ]
