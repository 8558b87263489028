"""A run as one HTML page that needs nothing beside it: plots, tables, configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from html import escape

from .markdown import shown, signed, with_interval
from .plot import Plot, Point
from .summary import Figure, Row, Summary

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.4rem; } h3 { margin-bottom: .3rem; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; } .grid { stroke: var(--line); stroke-dasharray: 2 4; }
.axis { stroke: currentColor; fill: none; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .6rem 0 1.2rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } td { font-variant-numeric: tabular-nums; }
tr:hover td { background: var(--soft); } .worse { color: #c33c4a; } .note { opacity: .8; }
.small { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; }
"""
_TOKENS = "visual tokens per prompt, after pruning"


def page(summary: Summary, title: str) -> str:
    """The page as text."""
    body = [f"<h1>{escape(title)}</h1>", _introduction(summary)]
    for engine in summary.engines:
        rows = summary.of_engine(engine)
        name = f": {escape(engine)}" if len(summary.engines) > 1 else ""
        base = next(row for row in rows if row.setting == summary.baseline)
        body += [
            f"<h2>Accuracy{name}</h2>",
            _accuracy(rows, base, None).to_svg(),
            _overview(summary, rows),
            f"<h2>Time to first token{name}</h2>",
            _time_note(summary),
            _times(rows, base).to_svg(),
            f"<h2>By task{name}</h2>",
            _small_plots(summary, rows, base),
            _table(["setting", *summary.tasks], _details(rows, summary.tasks, "tasks")),
        ]
        if summary.subtasks:
            body += [
                "<h3>By part of the tasks</h3>",
                _table(
                    ["setting", *summary.subtasks], _details(rows, summary.subtasks, "subtasks")
                ),
            ]
    body += ["<h2>What was run</h2>", _configuration(summary)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _introduction(summary: Summary) -> str:
    data = summary.configuration.data
    text = (
        f"{data.samples:,} samples of {escape(data.file)}, greedy decoding. Scores are in per cent,"
        " brackets hold 95 % bootstrap intervals. A difference is from"
        f" <b>{escape(summary.baseline)}</b> on the same samples, in points; it is red where its"
        " interval lies below zero."
    )
    if data.unusable:
        text += f" {len(data.unusable)} samples of the file could not be used."
    return f"<p>{text}</p>"


def _time_note(summary: Summary) -> str:
    shared = (
        f" {summary.workers} processes shared the machine: compare settings with each other, not"
        " with other machines."
        if summary.workers > 1
        else ""
    )
    return (
        "<p class=note>Pruning and prefill, from the end of the vision tower, which runs once for"
        f" all settings: medians.{shared} For latency alone use"
        " <code>llm_inference --dumpProfile --warmup N</code>.</p>"
    )


def _accuracy(rows: Sequence[Row], base: Row, task: str | None, height: int = 380) -> Plot:
    def figure(row: Row) -> Figure:
        return row.overall if task is None else row.tasks[task]

    def point(row: Row) -> Point | None:
        score = figure(row).score
        if score is None:
            return None
        label = f"{row.setting}: {with_interval(figure(row))} %, {row.kept:.1f} % of tokens kept"
        return Point(row.visual_tokens[1], score.value, score.low, score.high, label)

    return Plot(_TOKENS, "score (%)", _series(rows, base, point), most=100.0, height=height)


def _times(rows: Sequence[Row], base: Row) -> Plot:
    def point(row: Row) -> Point | None:
        time = row.first_token_ms
        if time is None:
            return None
        label = (
            f"{row.setting}: {time.value:.2f} ms, half of the prompts {time.low:.2f} to"
            f" {time.high:.2f} ms; pruning {row.prune_ms:.2f} ms of it"
        )
        # Quartiles mostly tell short prompts from long ones: no interval is drawn.
        return Point(row.visual_tokens[1], time.value, time.value, time.value, label)

    return Plot(_TOKENS, "first token (ms)", _series(rows, base, point))


def _series(
    rows: Sequence[Row], base: Row, point: Callable[[Row], Point | None]
) -> dict[str, list[Point]]:
    """Lines by series; each begins at the baseline, which has no line of its own."""
    lines: dict[str, list[Point]] = {}
    start = point(base)
    for row in rows:
        found = point(row)
        if row is not base and found is not None:
            lines.setdefault(row.series, [start] if start else []).append(found)
    return lines or ({base.series: [start]} if start else {})


def _small_plots(summary: Summary, rows: Sequence[Row], base: Row) -> str:
    if len(summary.tasks) < 2:
        return ""
    plots = (
        f"<div><h3>{escape(task)}</h3>{_accuracy(rows, base, task, 320).to_svg()}</div>"
        for task in summary.tasks
    )
    return f'<div class="small">{"".join(plots)}</div>'


def _overview(summary: Summary, rows: Sequence[Row]) -> str:
    names = ["setting", "score", "difference", "tokens kept", "first token", "pruning", "remarks"]
    lines = []
    for row in rows:
        change = row.overall.difference
        worse = change is not None and change.high < 0
        time = f"{row.first_token_ms.value:.2f} ms" if row.first_token_ms else "-"
        lines.append(
            [
                escape(row.setting),
                with_interval(row.overall),
                f'<span class="{"worse" if worse else ""}">{signed(change)}</span>',
                f"{row.kept:.1f} %",
                time,
                "-" if row.prune_ms is None else f"{row.prune_ms:.2f} ms",
                _remarks(row),
            ]
        )
    return _table(names, lines)


def _remarks(row: Row) -> str:
    parts = [f"{row.failed} failed"] if row.failed else []
    parts += [f"{row.unreadable} unreadable"] if row.unreadable else []
    parts += [f"{count} not pruned: {escape(why)}" for why, count in row.skipped.items()]
    return "; ".join(parts)


def _details(rows: Sequence[Row], names: Sequence[str], kind: str) -> Iterable[list[str]]:
    for row in rows:
        figures: dict[str, Figure] = getattr(row, kind)
        cells = (_cell(figures[name]) for name in names)
        yield [escape(row.setting), *cells]


def _cell(figure: Figure) -> str:
    change = figure.difference
    worse = change is not None and change.high < 0
    tip = f"{with_interval(figure)}, difference {signed(change)}, {figure.samples} samples"
    return f'<span title="{escape(tip)}" class="{"worse" if worse else ""}">{shown(figure)}</span>'


def _configuration(summary: Summary) -> str:
    found = summary.configuration
    rows = [
        ["data set", escape(f"{found.data.file}, sha256 {found.data.sha256[:16]}")],
        *([escape(k), escape(v)] for k, v in found.versions.items()),
        ["processes", str(summary.workers)],
        ["samples answered together", str(found.together)],
        [
            "longest answer",
            "as the data set says" if found.max_tokens is None else str(found.max_tokens),
        ],
    ]
    for name, engine in found.engines.items():
        facts = ", ".join(f"{key} {value}" for key, value in asdict(engine).items())
        rows.append([f"engine {escape(name)}", escape(facts)])
    for setting in dict.fromkeys(row.setting for row in summary.rows):
        rows.append([f"setting {escape(setting)}", escape(found.settings[setting])])
    unusable = "".join(f"<li>{escape(line)}</li>" for line in found.data.unusable)
    return _table(["", ""], rows) + (
        f"<h3>Samples that could not be used</h3><ul>{unusable}</ul>" if unusable else ""
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
