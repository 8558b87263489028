"""A network's shape profiles in TensorRT's form."""

from __future__ import annotations

from typing import Any

from ..core.manifest import Profile, TensorSpec
from .contract import Contract


def add_profiles(builder: Any, config: Any, contract: Contract) -> None:
    """Add ``contract``'s profiles to ``config``, in order."""
    dynamic = [s for s in contract.inputs if any(isinstance(size, str) for size in s.shape)]
    for profile in contract.profiles:
        optimization = builder.create_optimization_profile()
        for spec in dynamic:
            bounds = (input_shape(spec, profile, point) for point in ("min", "opt", "max"))
            optimization.set_shape(spec.name, *bounds)
        config.add_optimization_profile(optimization)


def input_shape(spec: TensorSpec, profile: Profile, point: str) -> tuple[int, ...]:
    """The shape of ``spec`` at one ``point`` (``"min"``, ``"opt"``, ``"max"``) of a profile."""
    return tuple(_size(size, profile, point) for size in spec.shape)


def _size(size: int | str, profile: Profile, point: str) -> int:
    if isinstance(size, int):
        return size
    factor, _, symbol = size.rpartition("*")
    value: int = getattr(profile.ranges[symbol], point)
    return int(factor or 1) * value
