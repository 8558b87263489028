"""JSON values to frozen dataclasses, strictly: every field present, every type as annotated."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


class DecodeError(Exception):
    """A value does not fit the annotation; the message names the field by its dotted path."""


def decode(kind: type[T], raw: Any, where: str = "") -> T:
    """Build a ``kind`` (a dataclass, scalar, union, ``tuple`` or ``dict``) from JSON's types.

    Unknown keys are ignored. Fields with a default may be absent.

    Raises:
        DecodeError: a field is missing or has the wrong type.
    """
    value: T = _decode(kind, raw, where)
    return value


def _decode(kind: Any, raw: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, _expect(dict, raw, where), where)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, raw, where)
    if origin is tuple:
        items = enumerate(_expect(list, raw, where))
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in items)
    if origin is dict:
        pairs = _expect(dict, raw, where).items()
        return {key: _decode(arguments[1], item, _join(where, key)) for key, item in pairs}
    if kind is float and type(raw) is int:
        return float(raw)
    return _expect(kind, raw, where)


def _decode_fields(kind: Any, raw: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        path = _join(where, field.name)
        if field.name in raw:
            values[field.name] = _decode(hints[field.name], raw[field.name], path)
        elif (field.default, field.default_factory) == (dataclasses.MISSING,) * 2:
            raise DecodeError(f"field {path!r} is missing")
    return kind(**values)


def _decode_union(arguments: tuple[Any, ...], raw: Any, where: str) -> Any:
    for option in arguments:
        try:
            return _decode(option, raw, where)
        except DecodeError:
            continue
    names = " or ".join(getattr(option, "__name__", str(option)) for option in arguments)
    raise DecodeError(f"field {where!r} is {raw!r}; expected {names}")


def _expect(kind: type[Any], raw: Any, where: str) -> Any:
    if type(raw) is not kind:
        raise DecodeError(f"field {where!r} is {raw!r}; expected {kind.__name__}")
    return raw


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
