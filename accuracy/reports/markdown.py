"""A run's figures as Markdown tables, for documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean

from .bootstrap import Interval
from .summary import Figure, Row, Summary

Cell = str | int | float


def markdown(summary: Summary, heading: str = "##") -> str:
    """All tables of a run: an overview per engine, then a section per ratio.

    Args:
        heading: the mark of its top headings.
    """
    lines: list[str] = []
    for engine in summary.engines:
        rows = summary.of_engine(engine)
        if len(summary.engines) > 1:
            lines += [f"{heading} Engine `{engine}`", ""]
        base = next(row for row in rows if row.setting == summary.baseline)
        lines += [*_overview(rows, base), ""]
        for ratio in _ratios(rows, base):
            chosen = sorted((row for row in rows if row.ratio == ratio), key=_by_score)
            lines += [f"{heading} {_title(ratio)}", ""]
            lines += _table(summary, base, [row for row in chosen if row is not base])
            lines.append("")
        lines += _notes(rows)
    return "\n".join(lines).rstrip() + "\n"


def _title(ratio: float | str) -> str:
    if ratio == 0.0:
        return "Nothing removed"
    return f"{ratio:g} removed" if isinstance(ratio, float) else f"Removed: {ratio}"


def _ratios(rows: Iterable[Row], base: Row) -> list[float | str]:
    return list(dict.fromkeys(row.ratio for row in rows if row is not base))


def _overview(rows: list[Row], base: Row) -> Iterator[str]:
    """All series at all ratios, the best mean first."""
    ratios = _ratios(rows, base)
    series: dict[str, dict[float | str, Row]] = {}
    for row in rows:
        if row is not base:
            series.setdefault(row.series, {})[row.ratio] = row
    yield f"`{base.setting}`: {with_interval(base.overall)}."
    yield ""
    yield from head("setting", *map(_title, ratios))
    for name in sorted(series, key=lambda name: fmean(map(_by_score, series[name].values()))):
        found = (series[name].get(ratio) for ratio in ratios)
        yield line(
            f"`{name}`", *("" if row is None else with_interval(row.overall) for row in found)
        )


def _table(summary: Summary, base: Row, rows: list[Row]) -> Iterator[str]:
    timed = summary.workers == 1  # with several processes times say more about the others
    names = ("setting", *summary.tasks, "all", "difference", "tokens kept (%)")
    yield from head(*names, *(["first token (ms)"] if timed else []))
    for row in (base, *rows):
        tasks = (shown(row.tasks[task]) for task in summary.tasks)
        change = "" if row is base else signed(row.overall.difference)
        times = [row.first_token_ms.value if row.first_token_ms else "-"] if timed else []
        overall = with_interval(row.overall)
        yield line(f"`{row.setting}`", *tasks, overall, change, row.kept, *times)
    if summary.subtasks:
        yield ""
        yield from head("setting", *summary.subtasks)
        for row in (base, *rows):
            yield line(
                f"`{row.setting}`", *(shown(row.subtasks[name]) for name in summary.subtasks)
            )


def _notes(rows: Iterable[Row]) -> Iterator[str]:
    """What a reader must know beyond the tables."""
    for row in rows:
        if row.failed:
            yield f"* `{row.setting}`: {row.failed} samples have no answer and count nowhere."
        if row.unreadable:
            yield f"* `{row.setting}`: {row.unreadable} answers could not be read; they are wrong."
        for reason, count in row.skipped.items():
            yield f"* `{row.setting}`: {count} prompts were not pruned: {reason}."
    yield ""


def head(*cells: Cell) -> tuple[str, str]:
    """A table's first two lines."""
    return line(*cells), "|" + "---|" * len(cells)


def line(*cells: Cell) -> str:
    """A line of a table; fractions have one place."""
    texts = (f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells)
    return "| " + " | ".join(texts) + " |"


def shown(figure: Figure) -> str:
    """A score alone."""
    return "-" if figure.score is None else f"{figure.score.value:.1f}"


def with_interval(figure: Figure) -> str:
    """A score and its interval."""
    score = figure.score
    return "-" if score is None else f"{score.value:.1f} [{score.low:.1f}, {score.high:.1f}]"


def signed(interval: Interval | None) -> str:
    """A difference and its interval, with true minus signs."""
    if interval is None:
        return "-"
    parts = (interval.value, interval.low, interval.high)
    value, low, high = (f"{part:+.1f}".replace("-", "\N{MINUS SIGN}") for part in parts)
    return f"{value} [{low}, {high}]"


def _by_score(row: Row) -> float:
    return -(row.overall.score.value if row.overall.score else 0.0)
