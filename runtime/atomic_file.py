"""Writing a file so that a reader sees all of it or none of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..core import UsageError


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Write ``text`` to ``path`` through a temporary file in the same folder.

    Args:
        mode: permission bits of the file, which is never readable by others before it has them.

    Raises:
        UsageError: the folder does not exist, is not writable, or the disk is full; ``path`` is
            then as it was.
    """
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def require_folder(path: Path, complaint: str = "") -> None:
    """Check that ``path`` could be written; before long work, not after it.

    Args:
        complaint: what a message begins with; that ``path`` cannot be written, if empty.

    Raises:
        UsageError: its folder does not exist or is not writable.
    """
    complaint = complaint or f"cannot write {path}"
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{complaint}: the folder does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{complaint}: the folder is not writable")
