"""The rows of published files: parquet, tab-separated values, JSON and JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core import UsageError

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row | str]]
"""``(place, row)``; a string in place of the row says why it cannot be read."""

_DAMAGED = "fetch the file again"


def find_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of the first of ``patterns`` that matches any, below ``folder``.

    Parquet files are passed over where they cannot be read and another form is there.
    """
    groups = [sorted(path for path in folder.rglob(p) if path.is_file()) for p in patterns]
    groups = [group for group in groups if group]
    readable = [group for group in groups if group[0].suffix != ".parquet" or _has_pyarrow()]
    return (readable or groups or [[]])[0]


def read_rows(path: Path) -> Rows:
    """Every row of ``path`` with its place, such as ``"row 3"`` or ``"line 3"``.

    Raises:
        UsageError: the file as a whole cannot be read.
    """
    reader = _READERS[path.suffix]
    try:
        yield from reader(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: cannot be read ({error}); {_DAMAGED}") from None


def _has_pyarrow() -> bool:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


def _parquet(path: Path) -> Rows:
    if not _has_pyarrow():
        raise UsageError(
            f"{path}: reading parquet takes pyarrow; install it: pip install 'edgevlm[accuracy]'"
        )
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=16):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path}: not a parquet file ({reason}); {_DAMAGED}") from None


def _tab_separated(path: Path) -> Rows:
    csv.field_size_limit(sys.maxsize)  # images are fields
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t")
        for row in reader:
            place = f"line {reader.line_num}"
            if None in row or None in row.values():
                names = len(reader.fieldnames or ())
                yield place, f"its fields do not match the {names} names of line 1; {_DAMAGED}"
            else:
                yield place, row


def _json_lines(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield f"line {number}", _object(json.loads(line))
                except ValueError as error:
                    yield f"line {number}", f"not JSON ({error}); {_DAMAGED}"


def _json(path: Path) -> Rows:
    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}: line {error.lineno}: not JSON ({error.msg})") from None
    if not isinstance(entries, list):
        raise UsageError(f"{path}: must be a list of samples")
    for index, entry in enumerate(entries):
        yield f"entry {index}", _object(entry)


def _object(value: Any) -> Row | str:
    return value if isinstance(value, dict) else f"must be an object; {_DAMAGED}"


_READERS: dict[str, Callable[[Path], Rows]] = {
    ".parquet": _parquet,
    ".tsv": _tab_separated,
    ".jsonl": _json_lines,
    ".json": _json,
}
