"""The named pruners: built-in ones, those a program registers, and those of installed packages."""

from __future__ import annotations

from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract, isclass

from ..core import EdgeVLMError, Registry, UsageError
from .base import VisualTokenPruner
from .config import VisualPrunerConfig
from .dart import DartPruner
from .dart_layer import DartLayerPruner
from .divprune import DivPruner
from .downsample import DownsamplePruner
from .holov import HoloVPruner
from .random_pruner import RandomPruner
from .scope import ScopePruner
from .stride import StridePruner
from .visionzip import VisionZipPruner
from .vispruner import VisPruner

ENTRY_POINT_GROUP = "edgevlm.visual_pruners"

_REGISTRY: Registry[type[VisualTokenPruner]] = Registry("visual pruner")
_REGISTRY.register("dart")(DartPruner)
_REGISTRY.register("dart-layer")(DartLayerPruner)
_REGISTRY.register("divprune")(DivPruner)
_REGISTRY.register("downsample")(DownsamplePruner)
_REGISTRY.register("holov")(HoloVPruner)
_REGISTRY.register("random")(RandomPruner)
_REGISTRY.register("scope")(ScopePruner)
_REGISTRY.register("stride")(StridePruner)
_REGISTRY.register("vispruner")(VisPruner)
_REGISTRY.register("visionzip")(VisionZipPruner)


def register_visual_pruner(
    name: str, cls: type[VisualTokenPruner], *, replace: bool = False
) -> None:
    """Make ``cls`` available to configurations as ``name``.

    Raises:
        UsageError: the name is empty or taken (unless ``replace``), or ``cls`` is no pruner class.
    """
    _REGISTRY.register(name, replace=replace)(_checked(name, cls))


def create_visual_pruner(config: VisualPrunerConfig) -> VisualTokenPruner:
    """Return the pruner that ``config`` names, ready to use.

    A registered pruner has precedence over an entry point of the same name, and an entry point is
    imported only when it is asked for: a broken one disturbs nobody else.

    Raises:
        UsageError: unknown algorithm (the message lists the known ones), an entry point that does
            not load, or illegal options.
    """
    name = config.algorithm
    cls = _REGISTRY.get(name) if name in _REGISTRY else _load(name)
    try:
        return cls(config)
    except EdgeVLMError:
        raise
    except Exception as error:
        raise UsageError(
            f"visual pruner {name!r} cannot be created: {type(error).__name__}: {error}"
        ) from error


def visual_pruner_names() -> list[str]:
    """All names a configuration may use, sorted. Imports no package."""
    offered = {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}
    return sorted(offered.union(_REGISTRY.names()))


def _load(name: str) -> type[VisualTokenPruner]:
    points = list(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if not points:
        raise UsageError(
            f"unknown visual pruner {name!r}; known: {', '.join(visual_pruner_names())}"
        )
    if len(points) > 1:
        sources = ", ".join(map(_source, points))
        raise UsageError(
            f"visual pruner {name!r} is offered more than once, uninstall one: {sources}"
        )
    try:
        loaded = points[0].load()
    except Exception as error:
        raise UsageError(
            f"visual pruner {name!r} of {_source(points[0])} does not load: "
            f"{type(error).__name__}: {error}; repair or uninstall that package"
        ) from error
    return _REGISTRY.register(name, replace=True)(_checked(name, loaded))


def _source(point: EntryPoint) -> str:
    package = point.dist.name if point.dist else "an unknown package"
    return f"{package} ({point.value})"


def _checked(name: str, cls: object) -> type[VisualTokenPruner]:
    if not isclass(cls) or not issubclass(cls, VisualTokenPruner) or isabstract(cls):
        raise UsageError(
            f"visual pruner {name!r} must be a subclass of VisualTokenPruner that defines select, "
            f"got {cls!r}"
        )
    if not is_dataclass(cls.Options):
        raise UsageError(
            f"visual pruner {name!r}: Options must be a dataclass, got {cls.Options!r}"
        )
    return cls
