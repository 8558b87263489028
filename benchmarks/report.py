"""What a benchmark leaves: a table to read and a JSON file that says how it came about."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..core import UsageError
from ..core.manifest import edgevlm_version

Row = Mapping[str, Any]


def environment(module: str, device: torch.device) -> dict[str, Any]:
    """The command, the versions and the machine."""
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    found: dict[str, Any] = {
        # Folders are of no use to a reader on another machine.
        "command": " ".join(["python", "-m", module, *(Path(word).name for word in sys.argv[1:])]),
        "edgevlm": edgevlm_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton_version,
        "cuda": torch.version.cuda,
        "device": str(device),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "gpu": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
        }
    return found


def table(rows: Sequence[Row]) -> str:
    """``rows`` as text, one column per key of the first, numbers to the right."""
    names = list(rows[0])
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    text = [isinstance(rows[0][name], str) for name in names]
    lines = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, text, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join(lines)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content``; folders are made.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
