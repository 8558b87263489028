"""Reading small system files that may be missing, empty or refuse to be read."""

from __future__ import annotations

from pathlib import Path


class Sysroot:
    """The tree under which ``/sys``, ``/proc`` and ``/etc`` lie: ``/`` on a real machine."""

    def __init__(self, root: Path | str = "/") -> None:
        self.root = Path(root)

    def text(self, path: str | Path) -> str | None:
        """The file's text without outer white space and nulls; ``None`` if it cannot be read.

        Sensors that are switched off answer with an error, not with a value.
        """
        try:
            data = (self.root / path).read_bytes()
        except OSError:
            return None
        return data.decode("utf-8", errors="replace").strip(" \t\r\n\0")

    def number(self, path: str | Path) -> float | None:
        """The file's text as a number; ``None`` if it is not one."""
        try:
            return float(self.text(path) or "")
        except ValueError:
            return None

    def folders(self, pattern: str) -> list[Path]:
        """What matches ``pattern``, relative to the root, sorted."""
        try:
            return sorted(found.relative_to(self.root) for found in self.root.glob(pattern))
        except OSError:
            return []
