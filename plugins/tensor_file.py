"""Writing a safetensors file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from ..core import UsageError


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file so that ``path`` is the old one or all of the new one.

    Raises:
        UsageError: it cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file({name: t.contiguous().cpu() for name, t in tensors.items()}, temporary, metadata)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write {path}: {reason}") from None
