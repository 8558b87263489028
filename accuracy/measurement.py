"""One measurement from end to end: answer, compute, write the reports."""

from __future__ import annotations

from pathlib import Path

from .evaluation import Plan, evaluate
from .reports import Summary, summarise, write_reports


def measure(plan: Plan, output: Path, *, workers: int, baseline: str, title: str) -> Summary:
    """Answer what ``output`` lacks of ``plan`` and write its reports there.

    Raises:
        EdgeVLMError: see :func:`~edgevlm.accuracy.evaluation.evaluate`; ``baseline`` is no setting.
    """
    results = evaluate(plan, output, workers)
    summary = summarise(results, baseline, workers)
    write_reports(summary, results, output, title)
    return summary
