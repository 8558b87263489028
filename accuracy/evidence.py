"""The project's own accuracy figures: every pruner on every task of the tiny world.

    python -m edgevlm.accuracy.evidence --engine engines/tiny-dense-torch --workers 12 \
        --work output/evidence --output docs/results/accuracy.md

Draws the scenes, answers them under every pruner and ratio, and writes the document. It can be
interrupted and started again. ``--also TITLE=DIR`` adds the figures of other runs, which
``edgevlm evaluate`` made.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core import UsageError, exit_status
from ..pruners import visual_pruner_names
from ..runtime import require_folder, write_atomically
from .datasets import prepare_tiny, read_dataset
from .evaluation import UNPRUNED, EngineDirs, Plan, RunOptions, parse_ratio, pruning_settings
from .measurement import measure
from .reports import Row, Summary, markdown, read_summary

_RATIOS = ("0.25", "0.4", "0.5", "0.75")
_SEED = 0
_DRAWN = "tiny_dataset.jsonl"
_CHANCE = "random"

_READING = """\
Scores are exactly right answers in per cent, greedy decoding, on scenes nobody trained on; brackets
hold 95 % bootstrap intervals. All settings answer the same questions, and a difference is from
`unpruned` on them, in points, with an interval of its own. Columns `1 x ...` to `4 x ...` are
prompts of one, two and four images, `table ...` are dense tables of numbers.
"""

_MEANING = """\
## What these figures say, and what they do not

They say what each pruner removes when every image is known to the pixel: which tasks lose first,
how one pruner compares with another on the same prompts, and whether a choice of tokens is better
than chance (`random`). The unpruned model answers nearly everything, so what is lost is lost to
pruning.

They do not say how much a real checkpoint loses. This one has 10 million parameters, sees 64 to 256
tokens per image and was trained on drawn scenes. A label there is one or two tokens wide and a
cell of a table is one: removing a token often removes the answer. A photograph of 1,000 tokens
repeats itself far more. Nor is a ranking here a ranking elsewhere. Before a ratio is raised on a
real checkpoint, `edgevlm evaluate` measures it there, on data like the user's own.

What routing of experts costs on the other bundled checkpoint is in
[experts-accuracy.md](experts-accuracy.md).

Intervals are of these questions; another training run of the checkpoint would move the scores by
an amount they do not cover. Where a score is 100 or 0 the bootstrap gives an interval of no width.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the document; 0, or a status with one line on what is wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    return exit_status(lambda: _run(_parse(words), words))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m edgevlm.accuracy.evidence",
        description="Accuracy of every pruner on every task of the tiny world.",
    )
    parser.add_argument("--engine", required=True, metavar="DIR", help="of the tiny checkpoint")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="scenes, answers")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the document")
    parser.add_argument("--samples", type=int, default=500, metavar="N", help="of every task")
    parser.add_argument("--algorithms", nargs="+", default=visual_pruner_names(), metavar="NAME")
    parser.add_argument("--ratios", nargs="+", default=_RATIOS, metavar="R")
    parser.add_argument("--also", nargs="*", default=[], metavar="TITLE=DIR", help="other runs")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    parser.add_argument("--device")
    return parser.parse_args(words)


def _run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    require_folder(arguments.output)
    others = [_other(text) for text in arguments.also]
    ratios = [parse_ratio(text) for text in arguments.ratios]
    settings = [UNPRUNED, *pruning_settings(arguments.algorithms, ratios)]
    drawn = arguments.work / f"tiny-{arguments.samples}" / _DRAWN
    if not drawn.is_file():
        prepare_tiny(drawn.parent, arguments.samples, _SEED, arguments.workers)
    engine = EngineDirs.parse(arguments.engine)
    summary = measure(
        Plan(read_dataset(drawn), [engine], settings, RunOptions(arguments.device)),
        arguments.work / f"{engine.name}-{arguments.samples}",
        workers=arguments.workers,
        baseline=UNPRUNED.name,
        title=f"Accuracy of {engine.name} under pruning",
    )
    document = "\n".join(_document(summary, others, words))
    write_atomically(arguments.output, document)


def _other(text: str) -> tuple[str, Summary]:
    title, given, folder = text.rpartition("=")
    if not given:
        raise UsageError(f"--also takes TITLE=DIR, got {text!r}")
    return title, read_summary(Path(folder))


def _document(
    summary: Summary, others: Sequence[tuple[str, Summary]], words: Sequence[str]
) -> Iterator[str]:
    yield "# Accuracy under visual-token pruning\n"
    yield _READING
    yield f"    {shlex.join(('python', '-m', 'edgevlm.accuracy.evidence', *map(_shown, words)))}\n"
    yield f"{_made_with(summary)}\n"
    yield markdown(summary)
    if lines := list(below_chance(summary)):
        yield "## No better than chance\n"
        yield "Tasks on which a pruner scores below `random` at the same ratio.\n"
        yield from (*lines, "")
    for title, other in others:
        yield f"## {title}\n"
        yield f"{_made_with(other)}\n"
        yield markdown(other, "###")
    yield _MEANING


def below_chance(summary: Summary) -> Iterator[str]:
    """A line per ratio: which pruners lose to ``random`` on which tasks."""
    chance = {row.ratio: row for row in summary.rows if row.series == _CHANCE}
    for ratio, drawn in chance.items():
        parts = []
        for row in summary.rows:
            if row.ratio != ratio or row is drawn:
                continue
            worse = [t for t in summary.tasks if _score(row, t) < _score(drawn, t)]
            if worse:
                parts.append(f"`{row.series}` on {', '.join(worse)}")
        yield f"* {ratio} removed: {'; '.join(parts) or 'none'}."


def _score(row: Row, task: str) -> float:
    score = row.tasks[task].score
    return score.value if score else 0.0


def _made_with(summary: Summary) -> str:
    found = summary.configuration
    engines = (
        f"`{name}` ({info.target}, {info.dtype}, {info.device})"
        for name, info in found.engines.items()
    )
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    each = found.data.samples // len(summary.tasks)
    return (
        f"{found.data.samples:,} prompts, {each} of every task, on {' and '.join(engines)};"
        f" {versions}."
    )


def _shown(word: str) -> str:
    """A word of the command without where things are on this machine."""
    name, given, value = word.rpartition("=")
    return f"{name}{given}{os.path.basename(value)}" if os.path.isabs(value) else word


if __name__ == "__main__":
    sys.exit(main())
