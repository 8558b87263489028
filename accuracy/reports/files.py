"""Writing a run's reports beside its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ...runtime import write_atomically
from ..evaluation import Results
from .markdown import markdown
from .page import page
from .summary import FILE, Summary

UNSCORED = "unscored"


def write_reports(summary: Summary, results: Results, folder: Path, title: str) -> None:
    """Write ``summary.json``, ``report.html`` and ``report.md``; answers to be scored elsewhere go
    to the folder ``unscored``, a file per engine and setting.

    Raises:
        UsageError: a file cannot be written.
    """
    write_atomically(folder / FILE, json.dumps(asdict(summary), indent=1) + "\n")
    write_atomically(folder / "report.html", page(summary, title))
    write_atomically(folder / "report.md", f"# {title}\n\n{markdown(summary)}")
    for name, lines in _unscored(results):
        (folder / UNSCORED).mkdir(exist_ok=True)
        write_atomically(folder / UNSCORED / name, "".join(lines))


def _unscored(results: Results) -> Iterator[tuple[str, list[str]]]:
    """Answers as ``edgevlm.accuracy.rag_igbench`` reads them."""
    wanted = [sample.id for sample in results.samples if sample.scoring == "none"]
    if not wanted:
        return
    for engine in results.configuration.engines:
        for setting in results.settings:
            answers = (results.answers[engine, setting.name, sample] for sample in wanted)
            lines = [
                json.dumps({"id": a.sample, "model_answer": a.text}, ensure_ascii=False) + "\n"
                for a in answers
            ]
            yield f"{engine} {setting.name}.jsonl".replace(" ", "-"), lines
