"""Tables of made-up figures."""

from __future__ import annotations

from typing import Any

from edgevlm.accuracy.tiny import TASKS
from edgevlm.accuracy.tiny.expert_tables import Row, _at, document

KINDS = ("visual-heavy", "text-heavier")


def row(group: str, name: str, score: float, **more: Any) -> Row:
    scores = dict.fromkeys((*TASKS, "all", *KINDS), score)
    return {"group": group, "name": name, "factor": None, "scores": scores, "doubt": 0.25, **more}


def limit(name: str, factor: float, score: float, load: float) -> Row:
    return row("prefill", name, score, factor=factor, load=load, dropped=12.34, rerouted=0.0)


def cells(text: str, *names: str) -> list[list[str]]:
    """The rest of each row that begins with ``names``."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row[len(names) :] for row in rows if row[: len(names)] == list(names)]


def test_at_a_load_between_two() -> None:
    rows = [limit("m", 2.0, 100.0, load=2.0), limit("m", 1.0, 50.0, load=1.0)]
    assert [_at(rows, "all", load) for load in (1.0, 1.25, 2.0)] == [50.0, 62.5, 100.0]
    assert _at(rows, "all", 0.99) is None and _at(rows, "all", 2.01) is None
    assert _at(rows, "a kind that no prompt is of", 1.5) is None
    assert _at(rows[:1], "all", 2.0) is None  # nothing to interpolate between


def test_at_a_load_that_two_have() -> None:
    rows = [limit("m", factor, score, load=1.0) for factor, score in ((1.0, 50.0), (2.0, 60.0))]
    assert _at(rows, "all", 1.0) == 50.0


def test_the_page() -> None:
    rows = [
        row("whole", "as routed", 99.0),
        row("decode", "fewer", 90.0, rows=3.5, active=(9.96, 4.0), changed=1.0),
        limit("drop", 0.5, 40.0, load=0.5),
        limit("drop", 1.0, 80.0, load=1.0),
    ]
    words = ["--engine", "/home/me/engines/tiny-moe", "--prompts", "9"]
    text = document(rows, words, batch=4, prompts=63)
    assert "    python -m edgevlm.accuracy.tiny.experts --engine tiny-moe --prompts 9\n" in text
    assert "/home/me" not in text
    assert "63 held-out prompts" in text and "As routed: 99.0 in all." in text
    count = len(TASKS) + 1
    assert cells(text, "as routed") == [["99.0"] * count + ["0.250", "-", "-", "-"]]
    assert cells(text, "fewer") == [["90.0"] * count + ["0.250", "3.5", "10.0 to 4.0", "1.0"]]
    assert cells(text, "drop", "0.5") == [
        ["40.0"] * (count + 2) + ["0.250", "0.50", "12.3", "0.0"],
    ]
    at_equal_load = ["-", "40.0", "60.0", "80.0", "-", "-"]
    assert cells(text, "drop").count(at_equal_load) == 3  # all prompts, and either kind


def test_a_task_without_prompts_has_no_score() -> None:
    rows = [row("whole", "as routed", 99.0)]
    del rows[0]["scores"][TASKS[0]]
    assert cells(document(rows, [], 1, 1), "as routed")[0][:2] == ["-", "99.0"]
