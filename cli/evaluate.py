"""``edgevlm evaluate``: a data set under many settings, with intervals, plots and a report."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ..accuracy.datasets import DataSet, read_dataset
from ..accuracy.evaluation import (
    UNPRUNED,
    EngineDirs,
    Plan,
    RunOptions,
    Setting,
    crossed,
    follow,
    parse_ratio,
    pruning_settings,
    read_settings,
)
from ..accuracy.measurement import measure
from ..accuracy.reports import Summary
from ..core import UsageError
from ..core.device import device_name
from ..plugins.parallel import joined
from ..pruners import visual_pruner_names
from .score_lines import score_lines

_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    what = parser.add_argument_group("what to run")
    what.add_argument(
        "--engine",
        nargs="+",
        required=True,
        metavar="[NAME=]DIR",
        help="engine directories, each with llm/ and visual/",
    )
    what.add_argument(
        "--data", type=Path, required=True, metavar="FILE", help="see prepare_dataset"
    )
    what.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="answers and reports go here",
    )
    what.add_argument("--limit", type=int, metavar="N", help="samples of every task at most")
    varied = parser.add_argument_group("settings: every algorithm at every ratio, and the file's")
    varied.add_argument(
        "--algorithms", nargs="*", default=[], metavar="NAME", help="pruners; all: every one"
    )
    varied.add_argument(
        "--ratios",
        nargs="*",
        default=["0.25", "0.5"],
        metavar="R",
        help="fractions to remove (default 0.25 0.5)",
    )
    varied.add_argument(
        "--settings", type=Path, metavar="FILE", help='JSON: [{"name", "pruning", "routing"}, ...]'
    )
    varied.add_argument(
        "--routings",
        type=Path,
        metavar="FILE",
        help='of experts, for each of these settings too; JSON: [{"name", "routing"}, ...]',
    )
    varied.add_argument(
        "--baseline", default=UNPRUNED.name, metavar="NAME", help="what differences are from"
    )
    run = parser.add_argument_group("run")
    add_run_arguments(run)
    run.add_argument(
        "--expert-parallel",
        action="store_true",
        help="share experts with the other ranks; start with torchrun -m edgevlm.cli.main evaluate",
    )


def add_run_arguments(run: argparse._ArgumentGroup) -> None:
    """Declare how to run, the same for all accuracy commands."""
    run.add_argument("--workers", type=int, default=1, metavar="N", help="processes to share it")
    run.add_argument(
        "--max-tokens", type=int, metavar="N", help="longest answer; default: as given"
    )
    run.add_argument("--device", help="torch backend: cpu, cuda, cuda:1, ...")
    run.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="the checkpoint, if it was moved"
    )


def run(arguments: argparse.Namespace) -> int:
    """Evaluate; 0: all answered, 1: samples without an answer, 2: wrong usage."""
    if not arguments.expert_parallel:
        return _evaluate(arguments, run_options(arguments))
    kind = device_name(arguments.device).split(":")[0]
    with joined(kind) as ranks:
        options = replace(run_options(arguments), device=str(ranks.device), expert_parallel=True)
        if ranks.rank == 0:
            return _evaluate(arguments, options)
        follow(options)
    return 0


def _evaluate(arguments: argparse.Namespace, options: RunOptions) -> int:
    settings = _settings(arguments)
    data = load(arguments.data, arguments.limit)
    engines = [EngineDirs.parse(text) for text in arguments.engine]
    summary = measure(
        Plan(data, engines, settings, options),
        arguments.output,
        workers=arguments.workers,
        baseline=arguments.baseline,
        title=f"Accuracy on {data.name}",
    )
    print("\n".join(score_lines(summary)))
    print(f"report: {arguments.output / 'report.html'}")
    return status(data, summary)


def load(path: Path, limit: int | None) -> DataSet:
    """The data set; what of it cannot be used is said on stderr."""
    data = read_dataset(path)
    for problem in data.problems:
        print(f"warning: {problem}", file=sys.stderr)
    return data if limit is None else data.thinned(limit)


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """What :func:`add_run_arguments` declared."""
    return RunOptions(arguments.device, arguments.checkpoint, arguments.max_tokens)


def status(data: DataSet, summary: Summary) -> int:
    """0 if every sample was used and answered."""
    return int(bool(data.problems) or any(row.failed for row in summary.rows))


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    algorithms = arguments.algorithms
    if algorithms == [_ALL]:
        algorithms = visual_pruner_names()
    settings = [UNPRUNED] if arguments.baseline == UNPRUNED.name else []
    settings += pruning_settings(algorithms, [parse_ratio(text) for text in arguments.ratios])
    if arguments.settings is not None:
        settings += read_settings(arguments.settings)
    if not settings:
        raise UsageError("nothing to evaluate: give --algorithms with --ratios, or --settings")
    routings = read_settings(arguments.routings) if arguments.routings is not None else []
    return crossed(settings, routings)
