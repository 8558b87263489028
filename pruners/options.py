"""An algorithm's own options: a frozen dataclass filled from a configuration's mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..core import UsageError
from .config import COMMON_SETTINGS, OptionValue

# An integer is a fine value for a float option; a boolean is no number.
_ACCEPTED = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,)}


@dataclass(frozen=True)
class NoOptions:
    """The options of an algorithm that has none."""


def build_options(schema: type, algorithm: str, given: Mapping[str, OptionValue]) -> Any:
    """Return ``schema(**given)`` after checking names and scalar types.

    Args:
        schema: a dataclass; its ``__post_init__`` checks ranges and raises ``UsageError``, or any
            exception whose text says what is legal.

    Raises:
        UsageError: an option is unknown, missing, of the wrong type or out of range.
    """
    legal = {
        field.name: str(getattr(field.type, "__name__", field.type)) for field in fields(schema)
    }
    for name, value in given.items():
        if name not in legal:
            raise UsageError(
                f"visual pruner {algorithm!r} has no option {name!r}; "
                f"its options: {', '.join(legal) or 'none'}; "
                f"settings of every pruner: {', '.join(COMMON_SETTINGS)}"
            )
        accepted = _ACCEPTED.get(legal[name])
        if accepted and type(value) not in accepted:
            raise UsageError(
                f"visual pruner {algorithm!r}: option {name} must be of type {legal[name]}, "
                f"got {value!r}"
            )
    try:
        return schema(**given)
    except Exception as error:
        raise UsageError(f"visual pruner {algorithm!r}: {error}") from error
