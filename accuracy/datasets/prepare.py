"""Making a data set: published rows or drawn scenes in, JSON lines and image files out.

Beside ``<name>_dataset.jsonl`` the same questions are written as a request file,
``<name>_dataset.json``, which ``llm_inference`` answers as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...core import RequestError, UsageError
from ...runtime import write_atomically
from . import mmmu, mmstar, rag_igbench
from .dataset import Problem
from .draft import Convert, Draft
from .image_files import save_image
from .rows import Row, find_files, read_rows
from .sample import to_json
from .tiny_world import draw_all

Line = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """A data set that others publish.

    Attributes:
        fetch: how to get it, with ``{folder}`` for where to put it.
        patterns: its files, the preferred form first; ``{split}`` is filled in.
        converter: makes a converter for a split.
    """

    fetch: str
    patterns: tuple[str, ...]
    converter: Callable[[str], Convert]


PUBLISHED = {
    "MMStar": Published(
        "hf download Lin-Chen/MMStar --repo-type dataset --local-dir {folder}",
        ("*.parquet", "*.tsv"),
        lambda split: mmstar.convert,
    ),
    "MMMU": Published(
        "hf download MMMU/MMMU --repo-type dataset --local-dir {folder}",
        ("{split}-*.parquet", "*.parquet", "*.tsv"),
        mmmu.converter,
    ),
    "RAG-IGBench": Published(
        "see github.com/zry13/RAG-IGBench; data.jsonl and the folder images go to {folder}",
        ("data.jsonl", "data.json", "*.jsonl"),
        lambda split: rag_igbench.convert,
    ),
}


@dataclass(frozen=True)
class Prepared:
    """What was written, and the rows that could not be used."""

    path: Path
    samples: int
    problems: tuple[Problem, ...]


def prepare_published(name: str, folder: Path, output: Path, split: str = "validation") -> Prepared:
    """Convert a local copy of a published data set.

    Raises:
        UsageError: it is not in ``folder`` (the message says how to fetch it), a file is damaged as
            a whole, no row can be used, or ``output`` cannot be written.
    """
    published = PUBLISHED[name]
    files = find_files(folder, [pattern.format(split=split) for pattern in published.patterns])
    if not files:
        kinds = " or ".join(published.patterns).format(split=split)
        fetch = published.fetch.format(folder=folder)
        raise UsageError(f"{name}: no {kinds} in {folder}; fetch it first: {fetch}")
    problems: list[Problem] = []
    lines = _converted(files, published.converter(split), output, problems)
    return _write(name, lines, output, problems, f"{name}: no usable sample in {folder}")


def prepare_tiny(output: Path, samples: int, seed: int, workers: int = 1) -> Prepared:
    """Draw ``samples`` held-out prompts of every task of the tiny world.

    Raises:
        UsageError: ``output`` cannot be written.
    """
    return _write("tiny", draw_all(output, samples, seed, workers), output, [], "nothing to draw")


def _converted(
    files: Iterable[Path], convert: Convert, output: Path, problems: list[Problem]
) -> Iterator[Line]:
    """Lines of all good rows; the others are added to ``problems``."""
    number = 0
    for file in files:
        for place, row in read_rows(file):
            number += 1
            try:
                line = _line(row, file, convert, output, f"{number:05d}")
            except RequestError as error:
                problems.append(Problem(f"{file.name}: {place}", str(error)))
                continue
            if line is not None:
                yield line


def _line(row: Row | str, file: Path, convert: Convert, output: Path, name: str) -> Line | None:
    if isinstance(row, str):
        raise RequestError(row)
    draft = convert(row, file)
    return None if draft is None else _saved(draft, output, name)


def _saved(draft: Draft, output: Path, name: str) -> Line:
    """The draft as a line; its images go to files that begin with ``name``."""
    content = []
    for place, part in enumerate(draft.parts):
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
        else:
            path = save_image(part, output, f"{name}-{place}")
            content.append({"type": "image", "image": path})
    return to_json(
        draft.id,
        draft.task,
        content,
        draft.answers,
        draft.scoring,
        subtask=draft.subtask,
        choices=draft.choices,
        max_tokens=draft.max_tokens,
    )


def _write(
    name: str, lines: Iterable[Line], output: Path, problems: list[Problem], nothing: str
) -> Prepared:
    try:
        (output / "images").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {output}: {error.strerror or error}") from None
    written = list(lines)
    if not written:
        raise UsageError(f"{nothing}" + (f"; {problems[0]}" if problems else ""))
    dump = partial(json.dumps, ensure_ascii=False)
    stem = f"{name.lower()}_dataset"
    path = output / f"{stem}.jsonl"
    write_atomically(path, "".join(f"{dump(line)}\n" for line in written))
    write_atomically(output / f"{stem}.json", dump(_request_file(written), indent=1))
    return Prepared(path, len(written), tuple(problems))


def _request_file(lines: list[Line]) -> dict[str, Any]:
    """The same questions for ``llm_inference``, greedy."""
    requests = [
        {
            "id": line["id"],
            "messages": [{"role": "user", "content": line["content"]}],
            "answer": line["answers"][0],
            "subject": line["task"],
        }
        for line in lines
    ]
    longest = max(line["max_tokens"] for line in lines)
    return {"temperature": 0.0, "max_generate_length": longest, "requests": requests}
