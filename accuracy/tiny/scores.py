"""Counting right answers, per setting, task and bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...runtime import Response
from .heldout import HeldOutSample


@dataclass(frozen=True)
class Setting:
    """What is removed, and by which pruner."""

    algorithm: str
    ratio: float

    @property
    def pruning(self) -> dict[str, Any]:
        """The settings of a request."""
        if not self.ratio:
            return {"enabled": False}
        return {"algorithm": self.algorithm, "reduction_ratio": self.ratio}

    def __str__(self) -> str:
        return f"{self.algorithm} {self.ratio:g}".strip()


UNPRUNED = Setting("", 0.0)


@dataclass
class Score:
    """Right answers and visual tokens of one (setting, task, bucket), or of several together."""

    asked: int = 0
    right: int = 0
    tokens: int = 0
    kept: int = 0

    def add(self, sample: HeldOutSample, response: Response) -> None:
        """Count one answer."""
        report = response.report
        if response.error is not None or report is None:
            raise SystemExit(f"{sample.task}/{sample.bucket}/{sample.index}: {response.error}")
        self.asked += 1
        self.right += response.text == sample.answer
        self.tokens += report.visual_tokens_before
        self.kept += report.visual_tokens_after

    def __add__(self, other: Score) -> Score:
        return Score(
            self.asked + other.asked,
            self.right + other.right,
            self.tokens + other.tokens,
            self.kept + other.kept,
        )

    @property
    def accuracy(self) -> float:
        """Per cent of exactly right answers."""
        return 100 * self.right / self.asked

    @property
    def share(self) -> float:
        """Per cent of the visual tokens that were kept."""
        return 100 * self.kept / self.tokens


Scores = dict[tuple[Setting, str, str], Score]


def total(scores: Scores, setting: Setting, task: str | None = None) -> Score:
    """All buckets of a task, or of all tasks, under one setting."""
    chosen = (s for (found, t, _), s in scores.items() if found == setting and task in (None, t))
    return sum(chosen, Score())


def settings_of(scores: Scores) -> list[Setting]:
    """The settings, in the order they were measured."""
    return list(dict.fromkeys(setting for setting, _, _ in scores))
