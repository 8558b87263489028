"""Scores as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

from .buckets import BUCKETS
from .questions import TASKS
from .scores import UNPRUNED, Scores, Setting, settings_of, total

_BASELINE = "random"


def by_ratio(scores: Scores) -> str:
    """One pruner: accuracy per task and ratio, then per task, images and ratio."""
    settings = settings_of(scores)
    head = [f"removed {setting.ratio:g}" for setting in settings]
    totals = {task: [total(scores, setting, task) for setting in settings] for task in TASKS}
    everything = [total(scores, setting) for setting in settings]
    lines = [
        *_head("task", "prompts", *head),
        *(_row(task, row[0].asked, *(s.accuracy for s in row)) for task, row in totals.items()),
        _row("visual tokens kept (%)", everything[0].asked, *(s.share for s in everything)),
        "",
        *_head("task", "images", *head),
    ]
    for task, bucket in sorted({key[1:] for key in scores}, key=_order):
        layout = BUCKETS[bucket]
        size = f"{layout.images} x {layout.width}x{layout.height}"
        lines.append(_row(task, size, *(scores[s, task, bucket].accuracy for s in settings)))
    return "\n".join(lines) + "\n"


def by_algorithm(scores: Scores) -> str:
    """Several pruners: a table per ratio, the best mean of the tasks first."""
    settings = settings_of(scores)
    asked = total(scores, UNPRUNED, TASKS[0]).asked
    lines = [
        f"{asked} prompts per task, the same for all: the standard error of a figure is at most"
        f" {50 / asked**0.5:.1f}, that of a difference between two pruners less than 1.4 times"
        " that. Rows are ordered by the mean of the tasks.",
    ]
    for ratio in sorted({setting.ratio for setting in settings} - {0.0}):
        rows = [s for s in settings if s.ratio == ratio]
        idle = [s.algorithm for s in rows if total(scores, s).share == 100]
        rows = [s for s in rows if s.algorithm not in idle]
        rows.sort(key=lambda setting: -_mean(scores, setting))
        lines += ["", f"## {ratio:g} removed", ""]
        lines += _head("pruner", *TASKS, "mean", "visual tokens kept (%)")
        lines += [_scored(scores, setting) for setting in (UNPRUNED, *rows)]
        lines += ["", *_notes(scores, rows, idle)]
    return "\n".join(lines) + "\n"


def _scored(scores: Scores, setting: Setting) -> str:
    tasks = [total(scores, setting, task).accuracy for task in TASKS]
    name = f"`{setting.algorithm}`" if setting.algorithm else "(not pruned)"
    return _row(name, *tasks, statistics.fmean(tasks), total(scores, setting).share)


def _mean(scores: Scores, setting: Setting) -> float:
    return statistics.fmean(total(scores, setting, task).accuracy for task in TASKS)


def _notes(scores: Scores, rows: list[Setting], idle: list[str]) -> Iterator[str]:
    """Who does worse than chance, and who did nothing."""
    baseline = next((s for s in rows if s.algorithm == _BASELINE), None)
    if baseline is not None:
        worse = {
            setting.algorithm: [
                task
                for task in TASKS
                if total(scores, setting, task).right < total(scores, baseline, task).right
            ]
            for setting in rows
        }
        found = "; ".join(
            f"`{name}` on {', '.join(tasks)}" for name, tasks in worse.items() if tasks
        )
        yield f"Below `{_BASELINE}`: {found or 'none'}."
    if idle:
        names = ", ".join(f"`{name}`" for name in idle)
        yield f"Left all prompts as they were, on this engine: {names}."


def _head(*cells: str) -> tuple[str, str]:
    return _row(*cells), "|" + "---|" * len(cells)


def _row(*cells: str | int | float) -> str:
    shown: Iterable[str] = (f"{c:.1f}" if isinstance(c, float) else str(c) for c in cells)
    return "| " + " | ".join(shown) + " |"


def _order(key: tuple[str, str]) -> tuple[int, int]:
    return TASKS.index(key[0]), list(BUCKETS).index(key[1])
