"""Exact match, free answers and ANLS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.accuracy.scoring import SCORINGS, anls, exact, free, score
from edgevlm.accuracy.scoring.anls import levenshtein, similarity
from edgevlm.core import UsageError

short = st.text("abc ", max_size=8)


def test_exact_match_forgives_outer_white_space_alone() -> None:
    assert exact(" AB1\n", ("AB1",)).score == 1.0
    assert exact("ab1", ("AB1",)).score == 0.0
    assert exact("AB1.", ("x", "AB1.")).score == 1.0
    assert exact("  ", ("AB1",)).read is None


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("The answer is: 1,000", "1000.0", True),
        ("$1,234.50", "1234.5", True),
        ("50%", "50", True),
        (".5", "0.50", True),
        ("-0", "0", True),
        ("1,00", "100", False),  # no thousands separator
        ('"Photosynthesis."', "photosynthesis", True),
        ("\uff28\uff12\uff2f", "H2O", True),  # full-width characters
        ("10", "-10", False),
        ("", "", False),
        ("blue circle", "circle", False),
    ],
)
def test_free_answers(text: str, answer: str, right: bool) -> None:
    assert free(text, (answer,)).score == float(right)


@given(st.integers(-(10**9), 10**9), st.integers(0, 3))
def test_numbers_compare_by_value(number: int, places: int) -> None:
    written = f"{number:,}" + ("." + "0" * places if places else "")
    assert free(written, (str(number),)).score == 1.0
    assert free(written, (str(number + 1),)).score == 0.0


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Stop", "stop", 1.0),
        ("stop  sign", "stop sign", 1.0),
        ("stip", "stop", 0.75),
        ("ab", "cd", 0.0),
        ("abcd", "ab", 0.0),  # half of it differs: at the threshold
        ("", "", 1.0),
    ],
)
def test_anls_by_hand(text: str, answer: str, expected: float) -> None:
    assert anls(text, (answer,)).score == expected
    assert anls(text, ("zzzzzzzzzzzz", answer)).score == expected


@given(short, short, short)
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert levenshtein(a, a) == 0
    assert levenshtein(a, b) == levenshtein(b, a)
    assert levenshtein(a, c) <= levenshtein(a, b) + levenshtein(b, c)
    assert abs(len(a) - len(b)) <= levenshtein(a, b) <= max(len(a), len(b))


@given(short, short)
def test_similarity_is_symmetric_and_skips_the_middle(a: str, b: str) -> None:
    assert similarity(a, b) == similarity(b, a)
    assert similarity(a, b) == 0.0 or 0.5 < similarity(a, b) <= 1.0


@given(st.sampled_from(SCORINGS.names()), st.text(max_size=30), st.lists(st.text(max_size=8)))
def test_every_scoring_stays_between_0_and_1(name: str, text: str, answers: list[str]) -> None:
    found = score(name, text, answers).score
    assert found is None if name == "none" else found is not None and 0.0 <= found <= 1.0


def test_an_unknown_scoring_lists_the_known() -> None:
    with pytest.raises(UsageError, match="unknown scoring 'bleu'; known: anls, choice, exact"):
        score("bleu", "", ())
