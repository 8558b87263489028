"""Reading a data set: every sample that is good, and one line about every one that is not.

Two forms are read: JSON lines, as ``prepare_dataset`` writes them (one sample a line), and request
files whose requests carry their ``answer``, as NVIDIA TensorRT Edge-LLM's ``prepare_dataset.py``
writes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core import RequestError, UsageError
from ...runtime import read_request_file
from ...runtime.json_cursor import JsonCursor
from .sample import Sample


@dataclass(frozen=True)
class Problem:
    """A sample that cannot be used: where it is, and what is wrong with it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class DataSet:
    """The samples of a file, in its order.

    ``digest`` covers the file and the names and sizes of its images.
    """

    name: str
    folder: Path
    samples: tuple[Sample, ...]
    problems: tuple[Problem, ...]
    digest: str

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order of their first samples."""
        return tuple(dict.fromkeys(sample.task for sample in self.samples))

    def thinned(self, count: int) -> DataSet:
        """The data set with ``count`` samples of every task at most, from all over the file.

        Raises:
            UsageError: that would be none.
        """
        if count < 1:
            raise UsageError(f"at least one sample of every task is needed, not {count}")
        chosen: list[Sample] = []
        for task in self.tasks:
            own = [sample for sample in self.samples if sample.task == task]
            number = min(count, len(own))
            chosen += [own[place * len(own) // number] for place in range(number)]
        return replace(self, samples=tuple(chosen))


def read_dataset(path: Path) -> DataSet:
    """Read ``path``; samples that cannot be used become problems and do not stop the others.

    Raises:
        UsageError: the file as a whole is of no use: unreadable, of another form, or without a
            single good sample.
    """
    readers = {".jsonl": _read_lines, ".json": _read_requests}
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name the data set's file in it")
    if path.suffix not in readers:
        raise UsageError(f"{path}: a data set is a .jsonl or .json file; see prepare_dataset")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); make it with prepare_dataset"
        ) from None
    samples: list[Sample] = []
    problems: list[Problem] = []
    first: dict[str, str] = {}
    for where, found in readers[path.suffix](path, content):
        if isinstance(found, Sample) and found.id in first:
            found = RequestError(f"id {found.id!r} is taken by {first[found.id]}; ids are unique")
        if isinstance(found, Sample):
            first[found.id] = where
            samples.append(found)
        else:
            problems.append(Problem(f"{path.name}: {where}", str(found)))
    if not samples:
        reason = f"; {problems[0]}" if problems else ""
        raise UsageError(f"{path}: has no sample that can be used{reason}")
    return DataSet(
        path.name, path.parent, tuple(samples), tuple(problems), _digest(content, samples)
    )


_Found = Iterator[tuple[str, Sample | RequestError]]


def _read_lines(path: Path, content: bytes) -> _Found:
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", Sample.from_json(JsonCursor(_parsed(line)), path.parent)
            except RequestError as error:
                yield f"line {number}", error


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except UnicodeDecodeError as error:
        raise RequestError(f"not UTF-8 text (byte {error.start}); write it again") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON ({error}); one object a line is expected") from None


def _read_requests(path: Path, content: bytes) -> _Found:
    """Requests with an ``answer``: a single capital is a choice, anything else is free text."""
    requests = read_request_file(path).requests
    raw = JsonCursor(json.loads(content.decode("utf-8-sig")))["requests"].items()
    for index, (request, node) in enumerate(zip(requests, raw, strict=True)):
        where = f"requests[{index}]"
        if isinstance(request, RequestError):
            # The error names the file and the request already.
            yield where, RequestError(str(request).removeprefix(f"{path}: ").removeprefix(where))
            continue
        try:
            answer = node["answer"].string().strip()
            choice = len(answer) == 1 and answer.isupper()
            yield (
                where,
                Sample(
                    id=request.id,
                    task=node["subject"].string() if "subject" in node else "all",
                    messages=tuple(request.messages),
                    answers=(answer,),
                    scoring="choice" if choice else "free",
                    max_tokens=request.sampling.max_tokens,
                ),
            )
        except RequestError as error:
            yield where, RequestError(str(error).removeprefix(f"{where}: "))


def _digest(content: bytes, samples: list[Sample]) -> str:
    digest = hashlib.sha256(content)
    for sample in samples:
        for source in sample.images:
            path = Path(source)
            if isinstance(source, str) and not path.is_file():
                continue  # a data: URI, which is part of the file
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
    return digest.hexdigest()
