"""Sizes as expressions over symbols: one description of a shape for every reader of it.

TensorRT knows row counts only when an engine runs, so shapes, grids and workspaces are described,
and each reader evaluates the description in numbers of its own: Python's, or TensorRT's symbolic
ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

OPERATIONS = ("add", "subtract", "multiply", "floor_divide", "ceil_divide", "minimum", "maximum")


class Arithmetic(Protocol):
    """Numbers of some kind."""

    def constant(self, value: int) -> Any:
        """``value`` as such a number."""

    def apply(self, operation: str, left: Any, right: Any) -> Any:
        """The result of one of :data:`OPERATIONS`."""


@dataclass(frozen=True)
class Size:
    """A symbol (``operation`` is ``"symbol"``), a constant, or an operation on two sizes."""

    operation: str
    operands: tuple[Size, ...] = ()
    symbol: str = ""
    value: int = 0

    def __add__(self, other: Size | int | str) -> Size:
        return Size("add", (self, size(other)))

    def __sub__(self, other: Size | int | str) -> Size:
        return Size("subtract", (self, size(other)))

    def __mul__(self, other: Size | int | str) -> Size:
        return Size("multiply", (self, size(other)))

    def __floordiv__(self, other: Size | int | str) -> Size:
        return Size("floor_divide", (self, size(other)))

    @property
    def symbols(self) -> frozenset[str]:
        """Every symbol in it."""
        own = {self.symbol} if self.operation == "symbol" else set()
        return frozenset(own.union(*(part.symbols for part in self.operands)))

    def evaluate(self, symbols: Mapping[str, Any], arithmetic: Arithmetic) -> Any:
        """Its value, given those of its symbols."""
        if self.operation == "symbol":
            return symbols[self.symbol]
        if self.operation == "constant":
            return arithmetic.constant(self.value)
        left, right = (part.evaluate(symbols, arithmetic) for part in self.operands)
        return arithmetic.apply(self.operation, left, right)

    def number(self, symbols: Mapping[str, int]) -> int:
        """Its value in integers."""
        return int(self.evaluate(symbols, INTEGERS))


def size(value: Size | int | str) -> Size:
    """A symbol's name or a number as a size."""
    if isinstance(value, Size):
        return value
    return Size("symbol", symbol=value) if isinstance(value, str) else Size("constant", value=value)


def ceil_divide(left: Size | str, right: int) -> Size:
    """How many blocks of ``right`` cover ``left``."""
    return Size("ceil_divide", (size(left), size(right)))


def minimum(left: Size | str, right: Size | str) -> Size:
    """The smaller of two sizes."""
    return Size("minimum", (size(left), size(right)))


class _Integers:
    def constant(self, value: int) -> int:
        return value

    def apply(self, operation: str, left: int, right: int) -> int:
        results = {
            "add": left + right,
            "subtract": left - right,
            "multiply": left * right,
            "minimum": min(left, right),
            "maximum": max(left, right),
        }
        if operation == "floor_divide":
            return left // right
        return -(-left // right) if operation == "ceil_divide" else results[operation]


INTEGERS: Arithmetic = _Integers()
