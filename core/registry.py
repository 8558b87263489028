"""One generic name -> object registry, used for pruners, engine backends and build targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .errors import UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps lower-case names to entries; unknown names are an error that lists the known ones.

    Args:
        kind: what an entry is, in the singular, for messages ("visual pruner").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str, *, replace: bool = False) -> Callable[[T], T]:
        """Return a decorator that registers its argument under ``name``.

        Raises:
            UsageError: the name is empty or taken (unless ``replace``).
        """
        if not name or name != name.strip():
            raise UsageError(f"a {self.kind} needs a non-empty name without outer spaces: {name!r}")

        def add(entry: T) -> T:
            if name in self._entries and not replace:
                raise UsageError(
                    f"{self.kind} {name!r} is registered already; pass replace=True to replace it"
                )
            self._entries[name] = entry
            return entry

        return add

    def get(self, name: str) -> T:
        """Return the entry called ``name``.

        Raises:
            UsageError: there is none; the message lists the known names.
        """
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(self.names()) or "none"
            raise UsageError(f"unknown {self.kind} {name!r}; known: {known}") from None

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries
