"""``edgevlm inspect``: what an engine is, and whether it can still be run."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..builder import EngineReport, PartReport, inspect_engine
from ..core.manifest import TensorSpec
from .sizes import size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument("engine", type=Path, help="engine directory, or its llm/ or visual/")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="the checkpoint, if it is no longer where the build found it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the report; returns 1 where an engine cannot be run as it is, else 0."""
    report = inspect_engine(args.engine, args.checkpoint)
    if args.json:
        print(json.dumps(_json(report), indent=2))
    else:
        console = Console(highlight=False)
        for part in report.parts:
            console.print(_table(part))
    return 0 if report.usable else 1


def _json(report: EngineReport) -> dict[str, Any]:
    parts = {part.manifest.kind: asdict(part) for part in report.parts}
    for part in parts.values():
        part.update({key: str(part[key]) for key in ("directory", "checkpoint")})
    return {"directory": str(report.directory), "usable": report.usable, "parts": parts}


def _table(part: PartReport) -> Table:
    manifest = part.manifest
    title = Text(str(part.directory))
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")

    def row(label: str, text: str, style: str = "") -> None:
        table.add_row(label, Text(text, style))

    capability = manifest.compute_capability
    row("kind", f"{manifest.kind}, {manifest.dtype}")
    row("target", f"{manifest.target} ({manifest.backend.name} {manifest.backend.version})")
    row("built", f"edgevlm {manifest.edgevlm_version} on {manifest.platform}")
    if capability:
        row("compute capability", capability)
    row("limits", "  ".join(f"{k}={v}" for k, v in asdict(manifest.limits).items()))
    for profile in manifest.profiles:
        ranges = (f"{k}={r.min}..{r.max} (typically {r.opt})" for k, r in profile.ranges.items())
        row(f"profile {profile.name}", "  ".join(ranges))
    for label, specs in (("input", manifest.inputs), ("output", manifest.outputs)):
        for line in _families(specs):
            row(label, line)
    for line in _parity(manifest.parity):
        row("parity", line)
    row("model files", f"{size(part.model_bytes)} ({', '.join(manifest.files) or 'none'})")
    found = "cannot be opened" if part.checkpoint_bytes is None else size(part.checkpoint_bytes)
    row("checkpoint", f"{part.checkpoint} ({found})")
    for note in part.notes:
        row("note", note, "yellow")
    for problem in part.problems:
        row("problem", problem, "red")
    if not part.problems:
        row("state", "ready: model files and checkpoint are those of the build", "green")
    return table


def _parity(parity: dict[str, float] | None) -> Iterator[str]:
    """The verdict, then the figures."""
    if parity is None:
        yield "not measured; see `edgevlm verify`"
        return
    figures = dict(parity)
    accepted = bool(figures.pop("accepted", 0.0))
    verdict = "passed" if figures.pop("passed", 0.0) else "failed"
    yield verdict + (", accepted" if accepted and verdict == "failed" else "")
    yield "  ".join(f"{name}={value:.6g}" for name, value in figures.items())


def _families(specs: Sequence[TensorSpec]) -> Iterator[str]:
    """One line per tensor, or per numbered family such as ``k_cache_0 .. k_cache_35``."""
    families: dict[tuple[str, str, tuple[int | str, ...]], list[str]] = {}
    for spec in specs:
        key = (re.sub(r"\d+", "#", spec.name), spec.dtype, spec.shape)
        families.setdefault(key, []).append(spec.name)
    for (_, dtype, shape), names in families.items():
        label = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
        yield f"{label} {dtype} [{', '.join(map(str, shape))}]"
