"""Which pruner runs, how much it removes, and when it stays out of the way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..core import UsageError

OptionValue = int | float | str | bool
Ratio = float | Literal["auto"]

AUTO: Final = "auto"

# Settings every algorithm shares; any other key of a JSON object is an algorithm's own option.
COMMON_SETTINGS = (
    "enabled",
    "algorithm",
    "reduction_ratio",
    "auto_min",
    "auto_max",
    "min_visual_tokens",
)


@dataclass(frozen=True)
class VisualPrunerConfig:
    """Settings of visual-token pruning, for a whole runtime or for one request.

    Args:
        enabled: whether to prune at all.
        algorithm: a name of :func:`visual_pruner_names`.
        reduction_ratio: fraction of the visual tokens to remove, strictly between 0 and 1, or
            ``"auto"``: chosen for each image by what is in it, see :mod:`.adaptive`.
        min_visual_tokens: prompts with fewer visual tokens than this are left alone.
        options: the algorithm's own settings; which ones are legal is checked when the pruner is
            created.
        auto_min, auto_max: bounds of what ``"auto"`` may choose, ``0 <= auto_min < auto_max < 1``.

    Raises:
        UsageError: a value is of the wrong type or out of range.
    """

    enabled: bool = False
    algorithm: str = "dart"
    reduction_ratio: Ratio = 0.25
    min_visual_tokens: int = 16
    options: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)
    auto_min: float = 0.1
    auto_max: float = 0.5

    def __post_init__(self) -> None:
        _require(isinstance(self.enabled, bool), "enabled", "true or false", self.enabled)
        named = isinstance(self.algorithm, str) and bool(self.algorithm)
        _require(named, "algorithm", "the name of a visual pruner", self.algorithm)
        ratio = self.reduction_ratio
        fraction = isinstance(ratio, float) and 0 < ratio < 1  # false for NaN
        wanted = (
            'a number strictly between 0 and 1 (the fraction of visual tokens removed) or "auto"'
        )
        _require(fraction or ratio == AUTO, "reduction_ratio", wanted, ratio)
        self._check_bounds()
        count = self.min_visual_tokens
        _require(type(count) is int and count >= 0, "min_visual_tokens", "an integer >= 0", count)
        _require(isinstance(self.options, Mapping), "options", "a mapping", self.options)
        for name, value in self.options.items():
            wanted = "a finite number, a string or true/false, written beside 'algorithm'"
            _require(_is_scalar(value), f"option {name!r}", wanted, value)
        object.__setattr__(self, "options", dict(self.options))

    def _check_bounds(self) -> None:
        bounds = (self.auto_min, self.auto_max)
        numbers = all(type(bound) in (int, float) for bound in bounds)
        ordered = numbers and 0 <= self.auto_min < self.auto_max < 1  # false for NaN
        wanted = "numbers with 0 <= auto_min < auto_max < 1"
        _require(ordered, "auto_min and auto_max", wanted, bounds)

    @property
    def adapts(self) -> bool:
        """Whether each image gets a ratio of its own."""
        return self.reduction_ratio == AUTO

    @property
    def largest_ratio(self) -> float:
        """The most that may be removed of an image."""
        return self.auto_max if self.reduction_ratio == AUTO else self.reduction_ratio

    def quota(self, tokens: int, ratio: float | None = None) -> int:
        """How many of ``tokens >= 1`` visual tokens to keep: ``ceil(tokens * (1 - ratio))``.

        ``ratio`` is the configuration's own unless given, and the largest of several. At least 1.
        Computed in float64, less 1e-9 before rounding up, so that a product meant to be whole is
        not pushed over by the ratio's binary representation (10 tokens at ratio 0.7 keep 3,
        although ``10 * (1 - 0.7)`` exceeds 3 in float64).
        """
        exact = tokens * (1.0 - (self.largest_ratio if ratio is None else ratio))
        return max(1, min(tokens, math.ceil(exact - 1e-9)))

    @classmethod
    def from_mapping(
        cls, raw: Mapping[str, Any], default: VisualPrunerConfig | None = None
    ) -> VisualPrunerConfig:
        """Lay a JSON object over ``default`` (all built-in defaults if there is none).

        Keys other than the common settings are options of the algorithm. Those of ``default``
        stay in force unless the object changes the algorithm. Setting anything asks for pruning:
        a non-empty object without ``enabled`` turns it on.

        Raises:
            UsageError: not an object, or a value is wrong.
        """
        base = cls() if default is None else default
        if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
            legal = ", ".join(COMMON_SETTINGS)
            raise UsageError(
                f"visual pruner settings must be an object of {legal} and the algorithm's options, "
                f"got {raw!r}"
            )
        algorithm = raw.get("algorithm", base.algorithm)
        inherited = base.options if algorithm == base.algorithm else {}
        given = {name: value for name, value in raw.items() if name not in COMMON_SETTINGS}
        return cls(
            enabled=raw.get("enabled", True if raw else base.enabled),
            algorithm=algorithm,
            reduction_ratio=raw.get("reduction_ratio", base.reduction_ratio),
            min_visual_tokens=raw.get("min_visual_tokens", base.min_visual_tokens),
            options={**inherited, **given},
            auto_min=raw.get("auto_min", base.auto_min),
            auto_max=raw.get("auto_max", base.auto_max),
        )


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int | str)


def _require(holds: bool, name: str, wanted: str, value: object) -> None:
    if not holds:
        raise UsageError(f"visual pruner: {name} must be {wanted}, got {value!r}")
