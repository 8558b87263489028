"""The files that a plugin is made from."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from .description import Operator


def source_files(operator: Operator) -> tuple[Path, ...]:
    """The kernels' files, and those that say how they are launched."""
    found = []
    for module in operator.sources:
        spec = find_spec(module)
        assert spec is not None and spec.origin is not None, module
        found.append(Path(spec.origin))
    return tuple(found)


@cache
def _digest(paths: tuple[Path, ...]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def source_digest(operator: Operator) -> str:
    """SHA-256 over them all."""
    return _digest(source_files(operator))
