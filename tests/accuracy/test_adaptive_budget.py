"""Comparing automatic ratios with fixed ones of the same budget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgevlm.accuracy.tiny.adaptive import main
from edgevlm.accuracy.tiny.budget_comparison import Answers, Bounds, Comparison, compare
from edgevlm.accuracy.tiny.budget_tables import report
from edgevlm.accuracy.tiny.questions import TASKS
from edgevlm.core import UsageError
from edgevlm.runtime import ChatRequest, Runtime

IMAGES = 2  # prompts per task
PROMPTS = IMAGES * len(TASKS)


class Scripted:
    """Keeps half of a prompt's tokens, or what the fixed ratio leaves; is right if automatic."""

    max_batch = 4

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def generate(self, requests: Iterable[ChatRequest]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: ChatRequest) -> Any:
        settings = dict(request.visual_pruning or {})
        self.asked.append(settings)
        ratio = settings["reduction_ratio"]
        kept = 50 if ratio == "auto" else round(100 * (1 - ratio))
        counts = SimpleNamespace(visual_tokens_before=100, visual_tokens_after=kept)
        return SimpleNamespace(text="never an answer", error=None, report=counts)


def test_settings() -> None:
    bounds = Bounds.parse("dart:0.05:0.35")
    assert bounds == Bounds("dart", 0.05, 0.35) and str(bounds) == "`dart` 0.05 to 0.35"
    for text, message in (
        ("dart", "ALGORITHM:AUTO_MIN:AUTO_MAX"),
        ("dart:a:b", "ALGORITHM:AUTO_MIN:AUTO_MAX"),
        ("dart:0.5:0.1", "auto_min < auto_max"),
        ("darts:0.1:0.5", "known: dart"),
        ("downsample:0.1:0.5", "reduction_ratio must be a number"),
    ):
        with pytest.raises(UsageError, match=message):
            Bounds.parse(text)


def test_the_fixed_ratio_keeps_no_fewer_tokens_in_either_sense() -> None:
    # 60 of 110 tokens (54.5 %), but 75 % of the average prompt.
    assert Answers(tokens=[10, 100], kept=[10, 50]).matching_ratio() == 0.25
    # 95 of 110 tokens (86.4 %), and 70 % of the average prompt.
    ratio = Answers(tokens=[10, 100], kept=[4, 91]).matching_ratio()
    assert 1 - 95 / 110 - 1e-4 < ratio <= 1 - 95 / 110


def test_every_prompt_is_asked_twice() -> None:
    runtime = Scripted()
    settings = [Bounds.parse("dart:0.1:0.5"), Bounds.parse("stride:0.2:0.6")]
    found = compare(cast(Runtime, runtime), settings, IMAGES, seed=0)
    assert [c.ratio for c in found] == [0.5, 0.5]
    assert len(runtime.asked) == 4 * PROMPTS
    ratios = [asked["reduction_ratio"] for asked in runtime.asked]
    assert ratios == ["auto"] * 2 * PROMPTS + [0.5] * 2 * PROMPTS
    assert {asked["algorithm"] for asked in runtime.asked} == {"dart", "stride"}
    assert found[0].auto.tokens == [100] * PROMPTS and not any(found[0].auto.right)


def test_the_report() -> None:
    def answers(right: list[bool], kept: list[int]) -> Answers:
        return Answers(list(TASKS) * 2, ["s256"] * 7 + ["m4"] * 7, right, [100] * 14, kept)

    auto = answers([True] * 14, [60] * 7 + [70] * 7)
    fixed = answers([True] * 7 + [False] * 7, [65] * 14)
    text = report([Comparison(Bounds("dart", 0.1, 0.5), 0.35, auto, fixed)])
    assert "| `dart` 0.1 to 0.5 | 65.0 | 100.0 | 0.35 | 65.0 | 50.0 | +50.0 [" in text
    assert "Better, with all of the interval above 0: `dart` 0.1 to 0.5.\n" in text
    assert "Not shown to be better: none.\n" in text
    assert "| 1 x 256x256 | a scene | 40.0 |" in text
    assert "| 4 x 256x256 | a scene each | 30.0 |" in text and "a table" not in text
    assert "| table | +50.0 [+0.0, +100.0] |" in text


def test_wrong_usage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = ["--output", str(tmp_path / "report.md")]
    assert main(["--engine", "x", "--settings", "dart", *output]) == 2
    assert main(["--engine", str(tmp_path), *output]) != 0
    assert capsys.readouterr().err.count("\n") == 2
