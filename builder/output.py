"""Replace an engine directory as one step, so that nobody ever sees half an engine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..core import EngineError, UsageError
from ..core.manifest import KINDS, MANIFEST_NAME


@contextlib.contextmanager
def replace_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory beside ``target`` that takes its place when the block succeeds.

    The directory is called ``.NAME.building`` and is locked while in use. A build that is killed
    leaves it behind; the next build of the same output empties it. ``target`` keeps its old
    content until the very end.

    Raises:
        UsageError: ``target`` exists and is not an engine directory.
        EngineError: another build of ``target`` is running.
        OSError: the file system refused something.
    """
    _require_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.parent / f".{target.name}.building"
    previous = target.parent / f".{target.name}.previous"
    with _locked_directory(building, target):
        _recover(target, previous)
        _empty(building)
        try:
            yield building
            _flush(building)
            if target.exists():
                target.rename(previous)
            building.rename(target)
            _flush_one(target.parent)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            _recover(target, previous)
            raise
        shutil.rmtree(previous, ignore_errors=True)


def _require_replaceable(target: Path) -> None:
    if not target.exists():
        return
    parts = [target / kind / MANIFEST_NAME for kind in KINDS]
    if target.is_dir() and (any(p.exists() for p in parts) or not any(target.iterdir())):
        return
    raise UsageError(
        f"{target}: exists and is not an engine directory, so it is left alone;"
        " choose another --output"
    )


@contextlib.contextmanager
def _locked_directory(path: Path, target: Path) -> Iterator[None]:
    """Create ``path`` and hold a lock on it, which the kernel drops if this process dies."""
    while True:
        path.mkdir(exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # the build that held it has just finished
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A build that finished between our open and our lock has renamed what we locked.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                yield
                return
        except BlockingIOError:
            raise EngineError(
                f"{target}: another build of it is running; wait for it or choose another --output"
            ) from None
        finally:
            os.close(descriptor)


def _recover(target: Path, previous: Path) -> None:
    """Undo a replacement that was cut short between its two renames."""
    if previous.exists():
        if target.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(target)


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _flush(directory: Path) -> None:
    for root, _, names in os.walk(directory):
        for name in names:
            _flush_one(Path(root, name))
        _flush_one(Path(root))


def _flush_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
