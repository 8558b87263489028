"""Packages that only these metrics need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...core import UsageError


def require(module: str, package: str, purpose: str) -> Any:
    """The imported module.

    Raises:
        UsageError: it is not installed, or does not import.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise UsageError(f"{package} does not import: {error}") from None
        raise UsageError(
            f"{package} is not installed, and {purpose}: pip install {package}"
        ) from None
    except ImportError as error:
        raise UsageError(f"{package} does not import: {error}") from None
