"""Means over samples, the two integrated scores, and how many samples did not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from .score import VALUES, Outcome, SampleScore

# What the published code averages: alignment twice, ROUGE-1 not at all. Its published figures, the
# paper's Table 10 among them, are of this form; the paper's text and Table 3 are of the other.
_REPO = ("alignment_code", "edit_distance", "kendall_code", "alignment_code", "clip_code")
_MEAN5 = ("rouge_1", "edit_distance", "kendall_code", "alignment_code", "clip_code")


@dataclass(frozen=True)
class Summary:
    """A run as a whole.

    Args:
        counts: samples by outcome. Publish them with the means: a worse model can have better means
            because its bad answers have become invalid.
        means: over scored samples; a value that was not computed is not there.
    """

    counts: dict[Outcome, int]
    means: dict[str, float]

    @property
    def integrated_repo(self) -> float | None:
        """The integrated score of the published code."""
        return self._mean(_REPO)

    @property
    def integrated_mean5(self) -> float | None:
        """The integrated score of the paper: the mean of the five metrics."""
        return self._mean(_MEAN5)

    def _mean(self, names: tuple[str, ...]) -> float | None:
        if not all(name in self.means for name in names):
            return None
        return fmean(self.means[name] for name in names)

    def lines(self) -> list[str]:
        """A report, values in per cent."""
        rows = [*((name, self.means.get(name)) for name in VALUES)]
        rows += [("integrated_repo", self.integrated_repo)]
        rows += [("integrated_mean5", self.integrated_mean5)]
        shown = [f"{name:<18}{_percent(value)}" for name, value in rows]
        counted = [f"{outcome:<18}{self.counts[outcome]:>9}" for outcome in Outcome]
        return [*shown, "", *counted]


def summarise(scores: Iterable[SampleScore]) -> Summary:
    """Means over the scored samples, and counts of all."""
    scores = list(scores)
    counted = Counter(score.outcome for score in scores)
    valid = [score.values for score in scores if score.outcome is Outcome.SCORED]
    means = {
        name: fmean(values[name] for values in valid)
        for name in VALUES
        if valid and name in valid[0]
    }
    return Summary({outcome: counted[outcome] for outcome in Outcome}, means)


def _percent(value: float | None) -> str:
    return f"{'not computed':>14}" if value is None else f"{100 * value:>9.2f}"
