"""Reading parsed JSON with the place always at hand: ``requests[2].messages[0].role``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core import RequestError

_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}


class PlacedError(RequestError):
    """An error whose message starts with ``where``, the place it is about (may be empty)."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class JsonCursor:
    """One value inside a JSON document, and where it stands.

    Every reading method raises :class:`RequestError` with the place, what is legal there and what
    was found instead.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        self.value = value
        self.where = where

    def error(self, message: str) -> RequestError:
        """An error about this very place."""
        return PlacedError(message, self.where)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Give errors that come out of the block this place, unless they have a closer one."""
        try:
            yield
        except PlacedError:
            raise
        except RequestError as error:
            raise self.error(str(error)) from None

    def __contains__(self, key: str) -> bool:
        """Whether the object has ``key``; a null counts as absent."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def __getitem__(self, key: str) -> JsonCursor:
        """The member called ``key`` of an object."""
        if key not in self.object():
            raise self.error(f'"{key}" is missing')
        return JsonCursor(self.value[key], f"{self.where}.{key}" if self.where else key)

    def items(self) -> Iterator[JsonCursor]:
        """The entries of a list."""
        for index, value in enumerate(self._typed(list)):
            yield JsonCursor(value, f"{self.where}[{index}]")

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = self._typed(dict)
        return found

    def string(self) -> str:
        return str(self._typed(str))

    def boolean(self) -> bool:
        return bool(self._typed(bool))

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._mismatch("a number")
        return self.value

    def integer(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self._mismatch("an integer")
        return self.value

    def _typed(self, kind: type) -> Any:
        if not isinstance(self.value, kind):
            raise self._mismatch(_NAMES[kind])
        return self.value

    def _mismatch(self, wanted: str) -> RequestError:
        found = next((name for kind, name in _NAMES.items() if isinstance(self.value, kind)), None)
        return self.error(f"must be {wanted}, found {found or repr(self.value)}")
