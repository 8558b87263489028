"""Failing a benchmark whose subject is wrong."""

from __future__ import annotations

from ..core import EdgeVLMError


class WrongResult(EdgeVLMError):
    """A result is not what it must be: the time it took means nothing."""
