"""How strongly experts are re-routed, and which ones are left alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...core import UsageError
from .strength import Ramp, fall, fall_whole

PROTECT_RULES = ("least-replaceable", "routed-mass", "union")
_PROTECTED_SHARE = 8  # 16 of 128 by default
_RAMPS = ("ramp_steps", "ramp_batch")


@dataclass(frozen=True)
class SereConfig:
    """Settings of re-routing, for a whole runtime.

    Args:
        top_k: slots of a token whose experts are primary; a number not below the model's own makes
            every expert primary, so nothing moves.
        threshold: similarity below which an expert is not replaced, 0 to 1; 0 replaces always.
        protect: experts of each layer that are never replaced; ``None`` for an eighth of them, 0
            for none.
        protect_by: how those are chosen, a name of ``PROTECT_RULES``; ``None`` leaves it to the
            calibration file.
        merge_duplicates: join slots of a token that come to name the same expert.
        ramp_steps, ramp_batch: let ``top_k`` and ``threshold`` fall over the tokens generated or
            over the rows of the batch; of two ramps the one that has risen further counts.
        least_top_k, least_threshold: where they end; ``None`` leaves the one as it is.

    Raises:
        UsageError: a value is of the wrong type or out of range, or there is a ramp without an end
            or an end without a ramp.
    """

    top_k: int = 2
    threshold: float = 0.5
    protect: int | None = None
    protect_by: str | None = None
    merge_duplicates: bool = False
    ramp_steps: Ramp | None = None
    ramp_batch: Ramp | None = None
    least_top_k: int | None = None
    least_threshold: float | None = None

    def __post_init__(self) -> None:
        _require(_whole(self.top_k, 1), "top_k", "an integer from 1 on", self.top_k)
        _require(_number(self.threshold, 1), "threshold", "a number from 0 to 1", self.threshold)
        count = self.protect is None or _whole(self.protect, 0)
        _require(count, "protect", "an integer from 0 on, or none for an eighth", self.protect)
        named = self.protect_by is None or self.protect_by in PROTECT_RULES
        _require(named, "protect_by", f"one of {', '.join(PROTECT_RULES)}", self.protect_by)
        merges = isinstance(self.merge_duplicates, bool)
        _require(merges, "merge_duplicates", "true or false", self.merge_duplicates)
        lower = self.least_top_k is None or _whole(self.least_top_k, 1, self.top_k)
        wanted = f"an integer from 1 to top_k, {self.top_k}"
        _require(lower, "least_top_k", wanted, self.least_top_k)
        lower = self.least_threshold is None or _number(self.least_threshold, self.threshold)
        wanted = f"a number from 0 to threshold, {self.threshold}"
        _require(lower, "least_threshold", wanted, self.least_threshold)
        ends = self.least_top_k is not None or self.least_threshold is not None
        if ends != any(self._ramps()):
            raise UsageError(
                "SERE: ramp_steps or ramp_batch goes with least_top_k or least_threshold; one says"
                " over what the strength changes, the other how far"
            )

    def protected_count(self, experts: int) -> int:
        """Experts to protect in a layer of ``experts``.

        Raises:
            UsageError: there are fewer than asked for.
        """
        if self.protect is None:
            return default_protected(experts)
        fits = self.protect <= experts
        _require(fits, "protect", f"no more than the {experts} experts of a layer", self.protect)
        return self.protect

    def at(self, batch: int, step: int) -> tuple[int, float]:
        """``top_k`` and ``threshold`` for a decode step.

        Args:
            batch: rows that decode.
            step: tokens that the youngest of their requests has generated.
        """
        values = zip(self._ramps(), (step, batch), strict=True)
        risen = max((ramp.at(value) for ramp, value in values if ramp), default=0.0)
        top_k = fall_whole(self.top_k, self.least_top_k, risen)
        return top_k, fall(self.threshold, self.least_threshold, risen)

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any]) -> SereConfig:
        """Read a JSON object whose keys are this class's fields; a ramp is ``[start, end]``, or
        ``"start:end"``.

        Raises:
            UsageError: not an object, an unknown key, or a value is wrong.
        """
        legal = [field.name for field in fields(cls)]
        known = isinstance(raw, Mapping) and set(raw) <= set(legal)
        _require(known, "settings", f"an object of {', '.join(legal)}", raw)
        ramps = {n: Ramp.parse(raw[n]) for n in _RAMPS if raw.get(n) is not None}
        return cls(**{**raw, **ramps})

    def _ramps(self) -> tuple[Ramp | None, Ramp | None]:
        return self.ramp_steps, self.ramp_batch


def default_protected(experts: int) -> int:
    """An eighth of ``experts``, at least one: 16 of 128."""
    return max(1, math.floor(experts / _PROTECTED_SHARE + 0.5))


def _whole(value: object, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(value: object, most: float) -> bool:
    """Whether it is one, from 0 to ``most``; false for NaN."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= most  # type: ignore[operator]


def _require(holds: bool, name: str, wanted: str, value: object) -> None:
    if not holds:
        raise UsageError(f"SERE: {name} must be {wanted}, got {value!r}")
