"""Client keys: made here, shown once, and kept as hashes only.

A key has 256 random bits, so its plain SHA-256 cannot be turned back; it needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import UsageError
from ..runtime import write_atomically

PREFIX = "evlm-"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MODE = 0o640


class KeyFile:
    """The keys in one file: ``{"keys": {name: {"sha256": ..., "created": ...}}}``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, name: str) -> str:
        """Make a key for client ``name`` and return it; it cannot be read back later.

        Raises:
            UsageError: the name is taken or not a name, or the file cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"a key's name is 1 to 64 letters, digits, '.', '_' or '-': {name!r}")
        entries = self.entries() if self.path.exists() else {}
        if name in entries:
            raise UsageError(f"{self.path}: there is a key {name!r} already; remove it first")
        key = PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._write({**entries, name: {"sha256": _digest(key), "created": created}})
        return key

    def remove(self, name: str) -> None:
        """Forget a client's key; a running service notices at its next request.

        Raises:
            UsageError: there is no such key, or the file cannot be written.
        """
        entries = self.entries()
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none"
            raise UsageError(f"{self.path}: no key {name!r}; there are: {known}")
        self._write({k: v for k, v in entries.items() if k != name})

    def entries(self) -> dict[str, dict[str, str]]:
        """Everything but the keys themselves, by client name.

        Raises:
            UsageError: the file is missing or is not a key file.
        """
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read ({error.strerror})") from None
        except ValueError:
            raise UsageError(f"{self.path}: not a key file (not JSON)") from None
        entries = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(entries, dict) or not all(map(_is_entry, entries.values())):
            raise UsageError(f'{self.path}: not a key file; it needs {{"keys": {{...}}}}')
        return entries

    def _write(self, entries: Mapping[str, Mapping[str, str]]) -> None:
        write_atomically(self.path, json.dumps({"keys": entries}, indent=2) + "\n", _MODE)
        # The service reads the file through its group, the one the folder belongs to.
        group = self.path.absolute().parent.stat().st_gid
        if os.geteuid() == 0:
            os.chown(self.path, -1, group)


class KeyRing:
    """Looks clients up by key, and reads the file again when it changes."""

    def __init__(self, file: KeyFile) -> None:
        self._file = file
        self._stamp: tuple[int, int] | None = None
        self._digests: dict[str, str] = {}
        self.reload()

    def reload(self) -> None:
        """Read the file if it is not the one read last.

        Raises:
            UsageError: it cannot be read; the keys known so far stay in force.
        """
        try:
            status = self._file.path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
        except OSError as error:
            raise UsageError(f"{self._file.path}: cannot be read ({error.strerror})") from None
        if stamp != self._stamp:
            entries = self._file.entries()
            self._digests = {name: entry["sha256"] for name, entry in entries.items()}
            self._stamp = stamp

    def __len__(self) -> int:
        return len(self._digests)

    def client(self, key: str) -> str | None:
        """The name of the client this key belongs to."""
        digest = _digest(key)
        found = None
        for name, known in self._digests.items():  # all of them, so that time tells nothing
            if hmac.compare_digest(known, digest):
                found = name
        return found


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("sha256"), str)
