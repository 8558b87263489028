"""What is varied between runs over the same samples: pruning, and how experts are routed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import RequestError, UsageError
from ...pruners import VisualPrunerConfig, VisualTokenPruner, create_visual_pruner
from ...runtime import ExpertRoutingConfig
from ...runtime.json_cursor import JsonCursor

Ratio = float | str
"""Fraction of the visual tokens to remove, or a word that pruners take in its place."""


@dataclass(frozen=True)
class Setting:
    """One way to answer. Results are filed under its name.

    Args:
        pruning: the request's ``visual_pruning``; ``None`` prunes nothing.
        routing: of a mixture of experts, see :meth:`ExpertRoutingConfig.from_mapping`; ``None``
            leaves it alone.

    Raises:
        UsageError: the name is empty, or something in the settings is not legal.
    """

    name: str
    pruning: Mapping[str, Any] | None = None
    routing: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name != self.name.strip():
            raise UsageError(f"a setting needs a name without outer spaces, not {self.name!r}")
        self.pruner()
        self.expert_routing()

    def pruner(self) -> VisualTokenPruner:
        """The pruner it makes; disabled where it prunes nothing."""
        try:
            return create_visual_pruner(VisualPrunerConfig.from_mapping(self.pruning or {}))
        except UsageError as error:
            raise UsageError(f"setting {self.name!r}: {error}") from None

    def expert_routing(self) -> ExpertRoutingConfig:
        """How the runtime routes experts under it."""
        try:
            return ExpertRoutingConfig.from_mapping(self.routing or {})
        except UsageError as error:
            raise UsageError(f"setting {self.name!r}: {error}") from None

    @property
    def ratio(self) -> Ratio:
        """What it removes."""
        if self.pruning is None:
            return 0.0
        ratio: Ratio = self.pruning.get("reduction_ratio", VisualPrunerConfig().reduction_ratio)
        return ratio

    @property
    def series(self) -> str:
        """The name without its ratio: settings of one series are a line in a plot."""
        return self.name.removesuffix(f" {_shown(self.ratio)}")

    @property
    def definition(self) -> str:
        """All but the name, as JSON; calibration files by name and content."""
        routing = self.routing and {key: _described(key, self.routing[key]) for key in self.routing}
        return json.dumps({"pruning": self.pruning, "routing": routing}, sort_keys=True)


UNPRUNED = Setting("unpruned")


def pruning_settings(algorithms: Iterable[str], ratios: Sequence[Ratio]) -> list[Setting]:
    """Every algorithm at every ratio; ratio 0 is the unpruned setting, once.

    Raises:
        UsageError: an algorithm is unknown or a ratio out of range.
    """
    settings = [UNPRUNED] if 0.0 in ratios else []
    for algorithm in algorithms:
        for ratio in ratios:
            if ratio != 0.0:
                pruning = {"algorithm": algorithm, "reduction_ratio": ratio}
                settings.append(Setting(f"{algorithm} {_shown(ratio)}", pruning))
    return settings


def crossed(settings: Sequence[Setting], routings: Sequence[Setting]) -> list[Setting]:
    """``settings`` as they are, and each with each routing.

    Raises:
        UsageError: one of ``settings`` has a routing of its own, or of ``routings`` a pruning.
    """
    if not routings:
        return list(settings)
    for setting in settings:
        if setting.routing is not None:
            raise UsageError(f"setting {setting.name!r}: has a routing, so none can be added to it")
    for routing in routings:
        if routing.pruning is not None:
            raise UsageError(f"routing {routing.name!r}: has a pruning; it is added to those given")
    return [
        *settings,
        *(
            Setting(f"{routing.name} {setting.name}", setting.pruning, routing.routing)
            for routing in routings
            for setting in settings
        ),
    ]


def read_settings(path: Path) -> list[Setting]:
    """Settings from a JSON file: a list of ``{"name", "pruning", "routing"}``.

    Raises:
        UsageError: it cannot be read or says something that is not legal.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error})") from None
    try:
        return [_setting(node) for node in JsonCursor(document, "settings").items()]
    except (RequestError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from None


def _setting(node: JsonCursor) -> Setting:
    def mapping(key: str) -> dict[str, Any] | None:
        return node[key].object() if key in node else None

    return Setting(node["name"].string(), mapping("pruning"), mapping("routing"))


def distinct(settings: Iterable[Setting]) -> list[Setting]:
    """Settings without repetitions.

    Raises:
        UsageError: two different ones have the same name.
    """
    found: dict[str, Setting] = {}
    for setting in settings:
        if found.setdefault(setting.name, setting) != setting:
            raise UsageError(f"two settings are called {setting.name!r}; rename one")
    return list(found.values())


def parse_ratio(text: str) -> Ratio:
    """A ratio as a command line has it: a number from 0, or a word.

    Raises:
        UsageError: a number outside ``[0, 1)``.
    """
    try:
        ratio = float(text)
    except ValueError:
        return text
    if not 0 <= ratio < 1:
        raise UsageError(f"a ratio is a number from 0 to below 1, or a word, not {text}")
    return ratio


def _described(key: str, value: Any) -> Any:
    if not key.endswith("_file") or value is None:
        return value
    path = Path(str(value))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{key} {path}: cannot be read ({error.strerror})") from None
    return f"{path.name} {hashlib.sha256(content).hexdigest()[:16]}"


def _shown(ratio: Ratio) -> str:
    return ratio if isinstance(ratio, str) else f"{ratio:g}"
