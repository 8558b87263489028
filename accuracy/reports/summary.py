"""The figures of a run, in plain values: what ``summary.json`` holds and all reports show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from ...core import UsageError
from ...core.decode import DecodeError, decode
from ..datasets import Sample
from ..evaluation import Answer, Configuration, Results, Setting
from .bootstrap import Array, Interval, Resampled, resample

FILE = "summary.json"


@dataclass(frozen=True)
class Figure:
    """A mean score in per cent, and its difference from the baseline in points.

    Both are ``None`` where nothing was scored; the difference also for the baseline itself. It is
    of the samples that both settings have a score for.
    """

    samples: int
    score: Interval | None
    difference: Interval | None


@dataclass(frozen=True)
class Row:
    """One setting on one engine.

    Attributes:
        visual_tokens: mean per prompt, before and after pruning.
        first_token_ms: median and quartiles, from the end of the vision tower.
        failed: samples without an answer; they have no score.
        unreadable: answers that the scoring could make nothing of; they count as wrong.
        skipped: how often pruning was asked for and did not happen, by reason.
    """

    engine: str
    setting: str
    series: str
    ratio: float | str
    overall: Figure
    tasks: dict[str, Figure]
    subtasks: dict[str, Figure]
    visual_tokens: tuple[float, ...]
    first_token_ms: Interval | None
    prune_ms: float | None
    failed: int
    unreadable: int
    skipped: dict[str, int]

    @property
    def kept(self) -> float:
        """Per cent of the visual tokens that were kept."""
        before, after = self.visual_tokens
        return 100 * after / before if before else 100.0


@dataclass(frozen=True)
class Summary:
    """All rows of a run, in its order, and what was run."""

    configuration: Configuration
    baseline: str
    tasks: tuple[str, ...]
    subtasks: tuple[str, ...]
    rows: tuple[Row, ...]
    workers: int

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines, in order."""
        return tuple(dict.fromkeys(row.engine for row in self.rows))

    def of_engine(self, engine: str) -> list[Row]:
        """The rows of one engine."""
        return [row for row in self.rows if row.engine == engine]


def summarise(results: Results, baseline: str, workers: int) -> Summary:
    """Compute all figures.

    Args:
        baseline: the setting that differences are from, on each engine.
        workers: how many processes shared the machine, for readers of the times.

    Raises:
        UsageError: there is no setting called ``baseline``.
    """
    names = [setting.name for setting in results.settings]
    if baseline not in names:
        raise UsageError(f"the baseline {baseline!r} is no setting; settings: {', '.join(names)}")
    tasks = tuple(dict.fromkeys(sample.task for sample in results.samples))
    subtasks = tuple(dict.fromkeys(s.subtask for s in results.samples if s.subtask))
    rows: list[Row] = []
    for engine in results.configuration.engines:
        rows += _engine_rows(results, engine, names.index(baseline), tasks, subtasks)
    return Summary(results.configuration, baseline, tasks, subtasks, tuple(rows), workers)


def read_summary(folder: Path) -> Summary:
    """The summary that an earlier run left in ``folder``.

    Raises:
        UsageError: there is none, or it is damaged.
    """
    path = folder / FILE
    try:
        return decode(Summary, json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, DecodeError) as error:
        raise UsageError(f"{path}: damaged ({error}); run the evaluation again") from None


class _Groups:
    """Resampled scores and differences of one engine's settings, by group of samples."""

    def __init__(self, scores: Array, baseline: int) -> None:
        self._both = np.hstack([scores, scores - scores[:, [baseline]]])  # [n,2k]
        self._settings, self._baseline = scores.shape[1], baseline

    def resample(self, chosen: Sequence[int], name: str) -> Resampled:
        return resample(self._both[chosen], name)

    def figures(self, part: Resampled, samples: int) -> list[Figure]:
        """One per setting."""
        return [
            Figure(
                samples,
                _per_cent(part.interval(place)),
                None
                if place == self._baseline
                else _per_cent(part.interval(self._settings + place)),
            )
            for place in range(self._settings)
        ]


def _engine_rows(
    results: Results,
    engine: str,
    baseline: int,
    tasks: Sequence[str],
    subtasks: Sequence[str],
) -> list[Row]:
    samples, settings = results.samples, results.settings
    answers = [[results.answers[engine, s.name, x.id] for x in samples] for s in settings]
    table = np.array(
        [[np.nan if a.score is None else a.score for a in column] for column in answers], float
    ).T  # [n,k]
    groups = _Groups(table, baseline)
    chosen = {task: _where(samples, "task", task) for task in tasks}
    parts = {task: groups.resample(chosen[task], task) for task in tasks}
    everything = sum(list(parts.values())[1:], parts[tasks[0]])
    overall = groups.figures(everything, len(samples))
    by_task = {task: groups.figures(parts[task], len(chosen[task])) for task in tasks}
    by_subtask = {}
    for name in subtasks:
        members = _where(samples, "subtask", name)
        part = groups.resample(members, f"subtask {name}")
        by_subtask[name] = groups.figures(part, len(members))
    return [
        _row(
            engine,
            setting,
            answers[place],
            overall[place],
            {task: figures[place] for task, figures in by_task.items()},
            {name: figures[place] for name, figures in by_subtask.items()},
        )
        for place, setting in enumerate(settings)
    ]


def _row(
    engine: str,
    setting: Setting,
    answers: Sequence[Answer],
    overall: Figure,
    tasks: dict[str, Figure],
    subtasks: dict[str, Figure],
) -> Row:
    good = [answer for answer in answers if answer.error is None]
    times = [answer.times for answer in good if answer.times is not None]
    pruned = setting.pruning is not None
    return Row(
        engine=engine,
        setting=setting.name,
        series=setting.series,
        ratio=setting.ratio,
        overall=overall,
        tasks=tasks,
        subtasks=subtasks,
        visual_tokens=tuple(
            fmean(answer.visual_tokens[i] for answer in good) if good else 0.0 for i in (0, 1)
        ),
        first_token_ms=_quartiles([time.first_token for time in times]),
        prune_ms=median(time.prune for time in times) if times else None,
        failed=len(answers) - len(good),
        unreadable=sum(answer.read is None for answer in good),
        skipped=dict(Counter(a.skipped for a in good if pruned and a.skipped is not None)),
    )


def _where(samples: Sequence[Sample], kind: str, name: str) -> list[int]:
    return [place for place, sample in enumerate(samples) if getattr(sample, kind) == name]


def _per_cent(interval: Interval | None) -> Interval | None:
    if interval is None:
        return None
    low, value, high = (round(100 * x, 4) for x in (interval.low, interval.value, interval.high))
    return Interval(value, low, high)


def _quartiles(values: Sequence[float]) -> Interval | None:
    if not values:
        return None
    low, middle, high = (float(x) for x in np.percentile(values, [25, 50, 75]))
    return Interval(round(middle, 3), round(low, 3), round(high, 3))
