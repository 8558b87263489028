"""Schedules driven by the wall clock: learning rate, averaging, and which bucket comes next."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class RateSchedule:
    """Warm-up by steps, a plateau, and a decay over the last part of the time.

    Attributes:
        peak: learning rate of the plateau.
        warm_up: steps until the plateau; counted anew in every run, because a resumed optimizer
            also needs to settle.
        seconds: when training ends, from its start.
        decay_seconds: length of the decay; 0 keeps the plateau, for a run to be resumed.
        floor: rate at the end, as a share of the peak.
    """

    peak: float
    warm_up: int
    seconds: float
    decay_seconds: float
    floor: float = 0.02

    def __post_init__(self) -> None:
        if self.peak <= 0 or self.warm_up < 0 or self.seconds <= 0 or self.decay_seconds < 0:
            raise ValueError(f"rate, steps and seconds must be positive: {self}")

    def rate(self, step: int, elapsed: float) -> float:
        """Learning rate at a step of this run, ``elapsed`` seconds after its start."""
        warm = min(1.0, (step + 1) / max(1, self.warm_up))
        left = max(0.0, self.seconds - elapsed)
        if self.decay_seconds > 0 and left < self.decay_seconds:
            return self.peak * warm * max(self.floor, left / self.decay_seconds)
        return self.peak * warm


def average_rate(step: int, horizon: int = 1000) -> float:
    """How far the moving average goes towards the weights: a plain mean at first."""
    return max(1.0 / horizon, 1.0 / (1 + step / 10))


@dataclass(frozen=True)
class Stage:
    """Buckets in training and their relative number of steps."""

    shares: dict[str, int]

    def order(self, seed: int) -> list[str]:
        """One round of bucket names, shuffled; the caller repeats it."""
        names = [name for name, share in self.shares.items() for _ in range(share)]
        random.Random(seed).shuffle(names)
        return names


STAGES = {
    # One size until it reads: on several sizes at once, words are bound to places much later.
    "first": Stage({"s256": 1}),
    "wide": Stage(
        {
            "s256": 5,
            "w384": 2,
            "h384": 2,
            "s512": 4,
            "m2": 4,
            "m4": 4,
            "t256": 4,
            "t384": 2,
            "t512": 3,
        }
    ),
}
