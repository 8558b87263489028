"""``answers.jsonl``: answers are appended as they come, so that no interruption loses them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...core import UsageError
from ...runtime import write_atomically
from .answer import Answer, Key

FILE = "answers.jsonl"
_LOCK = ".lock"


class Journal:
    """The answers of one output folder, by what they answer.

    A run that is killed leaves whole lines and at most one torn one, which is dropped here and
    answered again.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.answers = _read(self._path)

    def append(self, answers: Iterable[Answer]) -> int:
        """Add answers that are not there yet; returns how many those were."""
        new = [answer for answer in answers if answer.key not in self.answers]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(answer.to_line() for answer in new)
        self.answers.update((answer.key, answer) for answer in new)
        return len(new)

    def sort(self, order: Iterable[Key]) -> None:
        """Write the file again in ``order``; what that does not name stays behind it."""
        placed = {key: self.answers[key] for key in order if key in self.answers}
        self.answers = placed | self.answers
        write_atomically(self._path, "".join(a.to_line() for a in self.answers.values()))


def _read(path: Path) -> dict[Key, Answer]:
    """The answers of a file, after taking out what is no whole answer."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    found = [Answer.from_line(line) for line in content.splitlines()]
    answers = {answer.key: answer for answer in found if answer is not None}
    if None in found or not content.endswith(b"\n"):
        write_atomically(path, "".join(answer.to_line() for answer in answers.values()))
    return answers


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process; a process that is killed lets go of it.

    Raises:
        UsageError: another process holds it, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("w")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder}: another run is writing there; wait for it") from None
        yield
