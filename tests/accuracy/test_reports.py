"""Figures, tables and the page made of answers."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from edgevlm.accuracy.datasets import Sample
from edgevlm.accuracy.evaluation import (
    UNPRUNED,
    Answer,
    Configuration,
    Results,
    Setting,
    pruning_settings,
)
from edgevlm.accuracy.evaluation.answer import Times
from edgevlm.accuracy.evaluation.configuration import DataInfo
from edgevlm.accuracy.evaluation.engine import EngineInfo
from edgevlm.accuracy.reports import Summary, markdown, read_summary, summarise, write_reports
from edgevlm.accuracy.reports.page import page
from edgevlm.accuracy.reports.plot import Plot, Point
from edgevlm.core import UsageError
from edgevlm.runtime import Message

SETTINGS = (UNPRUNED, *pruning_settings(["dart", "stride"], [0.25, 0.5]))
ENGINE = EngineInfo("torch", "float32", "torch 2", "abc", {"max_batch": 4}, None, "CPU")


def results(scoring: str = "exact", engines: tuple[str, ...] = ("tiny",)) -> Results:
    """40 samples of two tasks; ``unpruned`` is always right, others on the share they keep."""
    samples = tuple(
        Sample(
            str(i),
            "<read>" if i % 2 else "count",
            (Message("user", "?"),),
            ("x",),
            scoring,
            subtask=f"part {i % 4}",
        )
        for i in range(40)
    )
    answers: dict[Any, Answer] = {}
    for engine in engines:
        for setting in SETTINGS:
            for place, sample in enumerate(samples):
                kept = 1 - float(setting.ratio)
                right = float(place < 40 * kept) if scoring == "exact" else None
                answer = Answer(
                    engine,
                    setting.name,
                    sample.id,
                    text="x",
                    read="x",
                    score=right,
                    visual_tokens=(100, round(100 * kept)),
                    times=Times(10 * kept, 1.0),
                )
                answers[answer.key] = answer
    configuration = Configuration(
        DataInfo("<data>.jsonl", "0" * 64, 40, ("<data>.jsonl: line 3: bad",)),
        dict.fromkeys(engines, ENGINE),
        {setting.name: setting.definition for setting in SETTINGS},
        None,
        4,
        {"edgevlm": "1"},
    )
    return Results(configuration, SETTINGS, samples, answers)


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(results(), "unpruned", workers=3)


def test_figures(summary: Summary) -> None:
    base, quarter, half = summary.rows[:3]
    assert base.overall.score and base.overall.score.value == 100.0
    assert base.overall.difference is None
    assert half.overall.score and half.overall.difference
    assert half.overall.score.value == 50.0 and half.overall.difference.value == -50.0
    assert half.overall.score.low < 50 < half.overall.score.high
    assert quarter.overall.difference and half.overall.difference.high < 0
    assert half.overall.difference.low < quarter.overall.difference.low
    assert (half.tasks["count"].samples, half.subtasks["part 1"].samples) == (20, 10)
    assert half.visual_tokens == (100.0, 50.0) and half.kept == 50.0
    assert half.first_token_ms and half.first_token_ms.value == 5.0
    assert (half.series, half.ratio) == ("dart", 0.5)


def test_failures_are_left_out_of_both_sides_and_counted() -> None:
    found = results()
    key = ("tiny", "dart 0.5", "0")
    found.answers[key] = Answer(*key, error="too long")
    unread = ("tiny", "dart 0.5", "1")
    found.answers[unread] = Answer(*unread, text="?", score=0.0, times=Times(1, 1), skipped="why")
    row = summarise(found, "unpruned", 1).rows[2]
    assert (row.failed, row.unreadable, row.skipped) == (1, 1, {"why": 1})
    assert row.overall.score and row.overall.difference
    assert row.overall.score.value == pytest.approx(100 * 18 / 39, abs=1e-3)
    assert row.overall.difference.value == pytest.approx(-100 * 21 / 39, abs=1e-3)
    text = markdown(summarise(found, "unpruned", 1))
    assert "* `dart 0.5`: 1 samples have no answer and count nowhere." in text
    assert "* `dart 0.5`: 1 answers could not be read; they are wrong." in text
    assert "* `dart 0.5`: 1 prompts were not pruned: why." in text


def test_any_setting_can_be_the_baseline() -> None:
    rows = summarise(results(), "dart 0.5", 1).rows
    assert rows[2].overall.difference is None
    assert rows[0].overall.difference and rows[0].overall.difference.value == 50.0
    with pytest.raises(UsageError, match="'nope' is no setting; settings: unpruned, dart"):
        summarise(results(), "nope", 1)


def cells(text: str, first: str) -> list[list[str]]:
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|"))
    return [line[1:] for line in lines if line[0] == first]


def test_tables(summary: Summary) -> None:
    text = markdown(summary)
    assert re.findall("## .*", text) == ["## 0.25 removed", "## 0.5 removed"]
    (overview,) = cells(text, "`dart`")
    assert [cell.split()[0] for cell in overview] == ["75.0", "50.0"]
    scores, parts = cells(text, "`dart 0.5`")
    assert scores[:2] == ["50.0", "50.0"] and scores[3].startswith("\N{MINUS SIGN}50.0 [")
    assert scores[4:] == ["50.0"]  # no times: three processes shared the machine
    assert len(parts) == 4
    alone = markdown(summarise(results(), "unpruned", 1))
    assert cells(alone, "`dart 0.5`")[0][5] == "5.0"


def test_the_page_stands_alone_and_escapes_what_it_shows(summary: Summary) -> None:
    text = page(summary, "A <title>")
    assert not re.search(r"(src|href)=|url\(|@import|<script", text)
    assert "<read>" not in text and "&lt;read&gt;" in text and "A &lt;title&gt;" in text
    assert "3 processes shared the machine" in text and "line 3: bad" in text
    for svg in re.findall("<svg.*?</svg>", text):
        ET.fromstring(svg)
    assert text.count("<svg") == 4  # accuracy, time, and one per task
    assert 'class="worse">\N{MINUS SIGN}50.0' in text


def test_plots_place_larger_values_higher_and_further_right() -> None:
    points = [Point(10, 50, 40, 60, "low"), Point(20, 90, 80, 100, "high")]
    svg = ET.fromstring(Plot("x", "y", {"s": points}, most=100).to_svg())
    circles = [node for node in svg.iter("circle") if node.find("title") is not None]
    low, high = ((float(c.get("cx") or 0), float(c.get("cy") or 0)) for c in circles)
    assert low[0] < high[0] and low[1] > high[1]
    labels = [node.text for node in svg.iter("text")]
    assert {"40", "60", "80", "100", "10", "20", "s"} <= set(labels) and "120" not in labels
    assert Plot("x", "y", {}).to_svg() == ""
    one = Plot("x", "y", {"s": [Point(0, 0, 0, 0, "")]}).to_svg()
    assert "nan" not in one and ET.fromstring(one) is not None


def test_reports_beside_the_answers(tmp_path: Path, summary: Summary) -> None:
    write_reports(summary, results(), tmp_path, "T")
    assert {path.name for path in tmp_path.iterdir()} == {
        "summary.json",
        "report.html",
        "report.md",
    }
    assert read_summary(tmp_path) == summary
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(UsageError, match=r"summary\.json: damaged"):
        read_summary(tmp_path)


def test_answers_that_are_scored_elsewhere_are_handed_over(tmp_path: Path) -> None:
    unscored = results("none", ("one", "two"))
    found = summarise(unscored, "unpruned", 1)
    assert found.rows[1].overall.score is None
    write_reports(found, unscored, tmp_path, "T")
    assert "| `dart 0.5` | - | - | - | - | 50.0 |" in (tmp_path / "report.md").read_text()
    names = sorted(path.name for path in (tmp_path / "unscored").iterdir())
    assert len(names) == 10 and names[0] == "one-dart-0.25.jsonl"
    line = (tmp_path / "unscored" / names[0]).read_text().splitlines()[0]
    assert json.loads(line) == {"id": "0", "model_answer": "x"}


def test_a_word_in_place_of_a_ratio_is_a_section_of_its_own() -> None:
    setting = Setting("x auto", None)
    assert setting.series == "x auto"  # nothing is removed: no ratio to take off
