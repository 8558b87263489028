"""One sample at a time, and means over several."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from PIL import Image

from edgevlm.accuracy.rag_igbench import (
    Metrics,
    Outcome,
    Reference,
    SampleScore,
    Summary,
    score_sample,
    summarise,
)
from edgevlm.accuracy.rag_igbench.rouge import Rouge1

from .vectors import FixedVectors

CANDIDATES = tuple(f"image {number}" for number in range(1, 11))


def reference(images: list[int], text: str = "b") -> Reference:
    shown = "".join(f"![](IMG#{image})" for image in images)
    return Reference("7", text + shown, CANDIDATES)


def output(images: list[int], text: str = "b") -> str:
    return json.dumps({"answer": text + "".join(f"![](IMG#{image})" for image in images)})


ORDER_ONLY = Metrics()


def test_the_worked_example() -> None:
    score = score_sample(reference([1, 2, 4]), output([3, 1, 2]), ORDER_ONLY)
    assert score.outcome is Outcome.SCORED
    assert score.values == pytest.approx(
        {"edit_distance": 1 / 3, "kendall_code": 0.3, "kendall_paper": 1.0}
    )


def test_all_metrics() -> None:
    loaded = []

    def load(name: str) -> Image.Image:
        loaded.append(name)
        return Image.new("RGB", (1, 1))

    metrics = Metrics(
        rouge=Rouge1(str.split, ()),
        text=FixedVectors({"a b ": 0.85, "b ": 1.0}),
        image=FixedVectors({"a b ": 0.25}),
        load=load,
    )
    score = score_sample(reference([3], "b "), output([3], "a b "), metrics)
    assert score.values == pytest.approx(
        {
            "rouge_1": 2 / 3,
            "edit_distance": 1.0,
            "kendall_code": (1 + 0.5 * 9 / 10) / 1.5,
            "kendall_paper": 1.0,
            "alignment_code": 0.5,
            "alignment_paper": 0.85,
            "clip_code": 0.5,
            "clip_paper": 0.25,
        }
    )
    assert loaded == ["image 3"]  # number 3 is the third candidate


@pytest.mark.parametrize(
    ("wanted", "given", "outcome", "reason"),
    [
        ([1], None, Outcome.MISSING, ""),
        ([1], "no JSON", Outcome.INVALID_FORMAT, ""),
        ([1], output([1, 11]), Outcome.HALLUCINATION, "image 11 of 10"),
        ([1], output([0]), Outcome.HALLUCINATION, "image 0 of 10"),
        ([], output([]), Outcome.UNDEFINED, "the reference has no image"),
        ([], output([4]), Outcome.UNDEFINED, "the reference has no image"),
        ([1], output([]), Outcome.SCORED, ""),
        ([], output([4, 5]), Outcome.SCORED, ""),
        ([1, 2], output([2, 2]), Outcome.SCORED, ""),
    ],
)
def test_outcomes(wanted: list[int], given: str | None, outcome: Outcome, reason: str) -> None:
    score = score_sample(reference(wanted), given, ORDER_ONLY)
    assert (score.outcome, score.reason) == (outcome, reason)
    assert bool(score.values) == (outcome is Outcome.SCORED)


def test_an_answer_without_words_has_no_rouge() -> None:
    metrics = Metrics(rouge=Rouge1(str.split, ()))
    score = score_sample(reference([1]), output([1], ""), metrics)
    assert score.outcome is Outcome.UNDEFINED and "no words" in score.reason


def scored(**values: float) -> SampleScore:
    return SampleScore("0", Outcome.SCORED, values=values)


FIVE = {
    "rouge_1": 0.5,
    "edit_distance": 0.4,
    "kendall_code": 0.3,
    "alignment_code": 0.2,
    "clip_code": 0.1,
}


def test_the_two_integrated_scores() -> None:
    summary = summarise([scored(**FIVE)])
    assert summary.integrated_mean5 == pytest.approx((0.5 + 0.4 + 0.3 + 0.2 + 0.1) / 5)
    assert summary.integrated_repo == pytest.approx((0.2 + 0.4 + 0.3 + 0.2 + 0.1) / 5)


def test_published_figures_come_out() -> None:
    """The paper's Table 10 is of the first form and gives its own five metrics."""
    figures = dict(zip(FIVE, (0.4, 0.1, 0.2, 0.3, 0.1), strict=True))
    summary = summarise([scored(**figures)])
    assert (summary.integrated_repo, summary.integrated_mean5) == pytest.approx((0.2, 0.22))


def test_excluded_samples_are_counted_apart() -> None:
    summary = summarise(
        [
            scored(edit_distance=1.0),
            scored(edit_distance=0.5),
            SampleScore("1", Outcome.INVALID_FORMAT),
            SampleScore("2", Outcome.HALLUCINATION),
            SampleScore("3", Outcome.HALLUCINATION),
            SampleScore("4", Outcome.UNDEFINED),
        ]
    )
    assert summary.means == {"edit_distance": 0.75}
    assert list(summary.counts.values()) == [2, 1, 2, 1, 0]
    assert summary.integrated_repo is None and summary.integrated_mean5 is None


def test_rouge_alone_is_not_needed_for_the_repository_s_form() -> None:
    without = {name: value for name, value in FIVE.items() if name != "rouge_1"}
    summary = summarise([scored(**without)])
    assert summary.integrated_repo is not None and summary.integrated_mean5 is None


def test_the_report_says_what_is_missing() -> None:
    lines = summarise([scored(edit_distance=0.5)]).lines()
    assert "edit_distance         50.00" in lines
    assert "rouge_1             not computed" in lines
    assert "invalid format            0" in lines


def test_no_scored_sample() -> None:
    summary: Summary = summarise([SampleScore("1", Outcome.MISSING)])
    assert summary.means == {} and summary.integrated_repo is None
    assert all(a != b for a, b in pairwise(summary.lines()))
