"""Comparisons of automatic and fixed ratios as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

import numpy as np

from ..reports.bootstrap import Interval, resample
from .buckets import BUCKETS
from .budget_comparison import Answers, Comparison
from .questions import TASKS


def report(comparisons: Sequence[Comparison]) -> str:
    """Markdown: the verdict, what was removed of which prompts, and where it helps."""
    buckets = [name for name in BUCKETS if name in comparisons[0].auto.buckets]
    lines = _table(
        ("setting", "kept (%)", "right (%)", "fixed ratio", "kept (%)", "right (%)", "difference"),
        [
            (c.bounds, *_totals(c.auto), str(c.ratio), *_totals(c.fixed), _shown(_gain(c, TASKS)))
            for c in comparisons
        ],
    )
    better = [str(c.bounds) for c in comparisons if _gain(c, TASKS).low > 0]
    others = [str(c.bounds) for c in comparisons if str(c.bounds) not in better]
    lines += ["", f"Better, with all of the interval above 0: {', '.join(better) or 'none'}."]
    lines += [f"Not shown to be better: {', '.join(others) or 'none'}."]
    lines += ["", "## Removed of each kind of prompt (%)", ""]
    lines += _table(
        ("images", "shows", *(c.bounds for c in comparisons)),
        [(*_kind(name), *(_removed(c.auto, name) for c in comparisons)) for name in buckets],
    )
    lines += ["", "## Difference by task", ""]
    lines += _table(
        ("task", *(c.bounds for c in comparisons)),
        [(task, *(_shown(_gain(c, [task])) for c in comparisons)) for task in TASKS],
    )
    return "\n".join(lines) + "\n"


def _totals(answers: Answers) -> tuple[float, float]:
    return 100 * sum(answers.kept) / sum(answers.tokens), 100 * float(np.mean(answers.right))


def _gain(comparison: Comparison, chosen: Sequence[str]) -> Interval:
    """Percentage points gained on the ``chosen`` tasks, prompts resampled within their task."""
    auto, fixed = comparison.auto, comparison.fixed
    gains = 100 * np.subtract(auto.right, fixed.right, dtype=np.float64)  # [prompts]
    tasks = np.array(auto.tasks)
    gain = reduce(add, (resample(gains[tasks == task, None], task) for task in chosen)).interval(0)
    assert gain is not None  # every task was asked
    return gain


def _shown(gain: Interval) -> str:
    return f"{gain.value:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"


def _kind(name: str) -> tuple[str, str]:
    bucket = BUCKETS[name]
    shows = "a table" if bucket.table else "a scene" if bucket.images == 1 else "a scene each"
    return f"{bucket.images} x {bucket.width}x{bucket.height}", shows


def _removed(answers: Answers, name: str) -> float:
    places = [place for place, bucket in enumerate(answers.buckets) if bucket == name]
    kept, tokens = (sum(found[p] for p in places) for found in (answers.kept, answers.tokens))
    return 100 * (1 - kept / tokens)


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    shown = [[f"{c:.1f}" if isinstance(c, float) else str(c) for c in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in shown]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]
