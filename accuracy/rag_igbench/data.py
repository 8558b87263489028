"""Reading the benchmark's samples and a model's answers to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ...core import RequestError, UsageError
from ...runtime.json_cursor import JsonCursor
from ..datasets.rows import read_rows

_FORMATS = (".jsonl", ".json")
_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class Reference:
    """One sample: the wanted answer, and the candidate images, of which the first is number 1."""

    id: str
    answer: str
    candidates: tuple[str, ...]


def read_references(path: Path) -> dict[str, Reference]:
    """The benchmark's ``data.jsonl``: ``id``, ``gt_answer`` and ``images``, a list per document.

    A ``.json`` file holds the same as one list.

    Raises:
        UsageError: it cannot be read, a line is wrong, or an id comes twice.
    """
    found: dict[str, Reference] = {}
    with _as_usage_errors():
        for line in _lines(path):
            images = tuple(
                image.string() for document in line["images"].items() for image in document.items()
            )
            reference = Reference(_id(line), line["gt_answer"].string(), images)
            if reference.id in found:
                raise line["id"].error(f"{reference.id!r} is there twice")
            found[reference.id] = reference
    return found


def read_answers(path: Path, known: dict[str, Reference]) -> dict[str, str]:
    """The model's output for each sample, ``id`` and ``model_answer``.

    Args:
        known: the samples that can be answered.

    Raises:
        UsageError: it cannot be read, a line is wrong, an id comes twice or is of no sample.
    """
    found: dict[str, str] = {}
    with _as_usage_errors():
        for line in _lines(path):
            name = _id(line)
            if name not in known:
                raise line["id"].error(f"{name!r} is no sample of the references")
            if name in found:
                raise line["id"].error(f"{name!r} is there twice")
            found[name] = line["model_answer"].string()
    return found


def load_image(folder: Path, name: str) -> Image.Image:
    """A candidate image, RGB; the benchmark's names lack the suffix of the file.

    Raises:
        UsageError: there is no such file, or it is no image.
    """
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        if path.is_file():
            try:
                with Image.open(path) as image:
                    return image.convert("RGB")
            except (OSError, ValueError, Image.DecompressionBombError) as error:
                raise UsageError(f"image {path}: cannot be read ({error})") from None
    raise UsageError(
        f"image {folder / name}: no such file, with or without {', '.join(_SUFFIXES[1:])}; fetch"
        " the benchmark's images and name their folder with --image-folder"
    )


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        raise UsageError(str(error)) from None


def _lines(path: Path) -> Iterator[JsonCursor]:
    """Each entry of a file; whatever is wrong with one names the file and the place."""
    if path.suffix not in _FORMATS:
        raise UsageError(f"{path}: must be a file of {' or '.join(_FORMATS)}")
    for place, row in read_rows(path):
        where = f"{path}: {place}"
        if isinstance(row, str):
            raise UsageError(f"{where}: {row}")
        yield JsonCursor(row, where)


def _id(line: JsonCursor) -> str:
    value = line["id"].value
    if type(value) not in (int, str):
        raise line["id"].error("must be a string or an integer")
    return str(value)
