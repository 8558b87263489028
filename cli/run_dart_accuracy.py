"""``run_dart_accuracy``: accuracy with pruning off against one run per reduction ratio."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ..accuracy.evaluation import UNPRUNED, EngineDirs, Plan, parse_ratio, pruning_settings
from ..accuracy.measurement import measure
from ..accuracy.reports import Row, Summary
from ..accuracy.reports.markdown import shown, signed
from .errors import run_reporting_errors
from .evaluate import add_run_arguments, load, run_options, status

_ALGORITHM = "dart"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags: the published command's names, then ours."""
    parser.add_argument("--engine_dir", type=Path, required=True, metavar="DIR")
    parser.add_argument("--multimodal_engine_dir", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--dataset_file", type=Path, required=True, metavar="FILE", help="see prepare_dataset"
    )
    parser.add_argument("--ratios", nargs="+", default=["0.25", "0.5"], metavar="R")
    parser.add_argument("--limit", type=int, metavar="N", help="samples of every task at most")
    parser.add_argument(
        "--output_dir",
        type=Path,
        metavar="DIR",
        help="keep answers and reports; makes it resumable",
    )
    add_run_arguments(parser.add_argument_group("run"))


def run(arguments: argparse.Namespace) -> int:
    """Compare; 0: all answered, 1: samples without an answer, 2: wrong usage."""
    ratios = [parse_ratio(text) for text in arguments.ratios]
    settings = [UNPRUNED, *pruning_settings([_ALGORITHM], ratios)]
    data = load(arguments.dataset_file, arguments.limit)
    engine = EngineDirs("engine", arguments.engine_dir, arguments.multimodal_engine_dir)
    plan = Plan(data, [engine], settings, run_options(arguments))
    with ExitStack() as stack:
        output = arguments.output_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        summary = measure(
            plan,
            output,
            workers=arguments.workers,
            baseline=UNPRUNED.name,
            title=f"DART on {data.name}",
        )
    print("\n".join(_lines(summary)))
    return status(data, summary)


def _lines(summary: Summary) -> Iterator[str]:
    yield f"=== DART accuracy on {summary.configuration.data.file} ==="
    for row in summary.rows:
        off = row.setting == UNPRUNED.name
        name = "pruning off" if off else f"ratio {row.ratio}"
        change = "" if off else f"  {signed(row.overall.difference)} points"
        yield f"{name:14} {_accuracy(row)}{change}"
    if len(summary.tasks) > 1:
        yield ""
        width = max(map(len, summary.tasks))
        yield " " * width + "".join(f"{_column(row):>10}" for row in summary.rows)
        for task in summary.tasks:
            cells = (shown(row.tasks[task]) for row in summary.rows)
            yield f"{task:{width}}" + "".join(f"{cell:>10}" for cell in cells)


def _accuracy(row: Row) -> str:
    score, answered = row.overall.score, row.overall.samples - row.failed
    if score is None:
        return "no answers"
    right = f"({score.value * answered / 100:.0f}/{answered})"
    failed = f", {row.failed} without an answer" if row.failed else ""
    return f"{score.value:6.2f} % {right}{failed}"


def _column(row: Row) -> str:
    return "off" if row.setting == UNPRUNED.name else str(row.ratio)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script ``run_dart_accuracy``."""
    parser = argparse.ArgumentParser(
        prog="run_dart_accuracy",
        description="Accuracy with pruning off against DART at several reduction ratios.",
    )
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    return run_reporting_errors(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
