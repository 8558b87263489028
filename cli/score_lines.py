"""The figures of an evaluation for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ..accuracy.reports import Summary
from ..accuracy.reports.markdown import signed, with_interval


def score_lines(summary: Summary) -> Iterator[str]:
    """One aligned line per engine and setting."""
    names = [row.setting for row in summary.rows]
    several = len(summary.engines) > 1
    width = max(map(len, [*names, "setting"]))
    yield f"{'setting':{width}}  {'score (%)':>20}  {'difference':>20}  tokens kept"
    for engine in summary.engines:
        if several:
            yield f"{engine}:"
        for row in summary.of_engine(engine):
            base = row.setting == summary.baseline
            change = "" if base else signed(row.overall.difference)
            failed = f"  {row.failed} without an answer" if row.failed else ""
            yield (
                f"{row.setting:{width}}  {with_interval(row.overall):>20}  {change:>20}"
                f"  {row.kept:9.1f} %{failed}"
            )
