"""Reports of measured scores."""

from __future__ import annotations

from edgevlm.accuracy.tiny.buckets import BUCKETS
from edgevlm.accuracy.tiny.heldout import tasks_of
from edgevlm.accuracy.tiny.score_tables import by_algorithm, by_ratio
from edgevlm.accuracy.tiny.scores import UNPRUNED, Score, Scores, Setting


def scores(right: dict[Setting, int], kept: dict[Setting, int]) -> Scores:
    """Ten prompts of every task and bucket; ``right`` of them right, ``kept`` tokens of 100."""
    return {
        (setting, task, bucket): Score(10, count, 100, kept[setting])
        for setting, count in right.items()
        for bucket in BUCKETS
        for task in tasks_of(bucket)
    }


def cells(text: str, name: str) -> list[list[str]]:
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row[1:] for row in rows if row[0] == name]


def test_one_pruner_by_ratio() -> None:
    half = Setting("dart", 0.5)
    text = by_ratio(scores({UNPRUNED: 10, half: 7}, {UNPRUNED: 100, half: 50}))
    total = cells(text, "table")[0]
    assert total == ["30", "100.0", "70.0"]  # three buckets
    assert cells(text, "visual tokens kept (%)")[0][1:] == ["100.0", "50.0"]
    assert ["4 x 256x256", "100.0", "70.0"] in cells(text, "read")


def test_pruners_are_ordered_by_mean_and_compared_with_chance() -> None:
    settings = {name: Setting(name, 0.25) for name in ("holov", "random", "scope", "idle")}
    right = {UNPRUNED: 10, **dict(zip(settings.values(), (3, 5, 9, 10), strict=True))}
    kept = {UNPRUNED: 100, **dict(zip(settings.values(), (75, 75, 75, 100), strict=True))}
    text = by_algorithm(scores(right, kept))
    (table,) = text.split("## ")[1:]
    assert table.startswith("0.25 removed\n")
    names = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert names == ["pruner", "(not pruned)", "`scope`", "`random`", "`holov`"]
    assert cells(table, "`holov`") == [["30.0"] * 8 + ["75.0"]]
    (below,) = [line for line in table.splitlines() if line.startswith("Below")]
    assert below == "Below `random`: `holov` on shape, colour, count, read, where, which, table."
    assert "Left all prompts as they were, on this engine: `idle`." in table
