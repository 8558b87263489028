"""Calibration files: tensors of one checkpoint, and how they came about."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Protocol, TypeVar

from ..core import CheckpointError, UsageError
from ..models import Checkpoint
from ..models.safetensors_file import SafetensorsFile


class Provenance(Protocol):
    """A dataclass of strings, as a safetensors file keeps them; ``format`` names the version."""

    @property
    def checkpoint(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


P = TypeVar("P", bound=Provenance)


def open_calibration(
    path: Path, checkpoint: Checkpoint, kind: type[P], version: str, again: str
) -> tuple[SafetensorsFile, P]:
    """Open a calibration file of ``checkpoint``.

    Args:
        kind: the dataclass that says how it came about, all of its fields in the file.
        version: what its ``format`` must be.
        again: how to make a file that will do, for messages.

    Raises:
        UsageError: it is missing, damaged, no such file at all, or of another checkpoint.
    """
    try:
        file = SafetensorsFile(path)
    except CheckpointError as error:
        reason = str(error).split("; download the ")[0]
        raise UsageError(f"{reason}; {again}") from None
    metadata = json.loads(file.header).get("__metadata__") or {}
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    if metadata.get("format") != version or not set(names) <= set(metadata):
        raise UsageError(f"{path}: no calibration file of this version; {again}")
    provenance = kind(**{name: metadata[name] for name in names})
    if provenance.fingerprint != checkpoint.fingerprint:
        raise UsageError(
            f"{path}: calibrated on checkpoint {provenance.checkpoint!r}"
            f" ({provenance.fingerprint[:12]}), not on {checkpoint.directory.name!r}"
            f" ({checkpoint.fingerprint[:12]}); {again} --checkpoint {checkpoint.directory}"
        )
    return file, provenance
