"""Bootstrap intervals of mean scores and of paired differences between settings.

Samples are resampled with replacement within their task, the same resamples for every setting, so
a difference between two settings is judged on the same questions. Percentile intervals; everything
is a function of the scores, since the random numbers are seeded by the task's name.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A value and the interval around it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Resampled:
    """Sums over resamples, from which means follow; those of several tasks can be added up.

    Row 0 is the sample itself, the rest are resamples of it.
    """

    sums: Array  # [1+R,k]
    counts: Array  # [1+R,k]

    def __add__(self, other: Resampled) -> Resampled:
        return Resampled(self.sums + other.sums, self.counts + other.counts)

    def interval(self, column: int) -> Interval | None:
        """The mean of one column; ``None`` where nothing was counted."""
        if not self.counts[0, column]:
            return None
        counted = self.counts[:, column] > 0
        means = self.sums[counted, column] / self.counts[counted, column]
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(means[1:], [tail, 1 - tail]) if len(means) > 1 else means[[0, 0]]
        return Interval(float(means[0]), float(low), float(high))


def resample(scores: Array, stratum: str) -> Resampled:
    """Resample the rows of ``scores``.

    Args:
        scores: ``[n,k]`` float64: one row per sample, one column per setting, NaN where there is no
            score.
        stratum: what the samples have in common; seeds the random numbers.
    """
    counted = ~np.isnan(scores)
    n = len(scores)
    seed = int.from_bytes(hashlib.blake2b(stratum.encode(), digest_size=8).digest())
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    weights = np.vstack([np.ones(n), drawn])  # [1+R,n]
    return Resampled(weights @ np.where(counted, scores, 0.0), weights @ counted)
