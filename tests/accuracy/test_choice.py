"""Reading a letter out of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.accuracy.scoring import choice
from edgevlm.accuracy.scoring.choice import read_choice

OPTIONS = ("red square", "blue circle", "dark red square", "a dog")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("b.", "B"),
        ("(B)", "B"),
        ("B. blue circle", "B"),
        ("**B**", "B"),
        ("B - it is round", "B"),
        ("B\nThe circle is blue.", "B"),
        ("The answer is **B**.", "B"),
        ("Answer: (C)", "C"),
        ("<answer>B</answer>", "B"),
        (r"so we get \boxed{\text{B}}", "B"),
        ("B is correct.", "B"),
        ("Options A and B are wrong, so the answer is C", "C"),
        ("The answer is C, because option B is wrong", "C"),
        ("I would choose option D here", "D"),
        ("I think it is B", "B"),
        ("It must be the (C) one", "C"),
        ("The shape is a blue circle.", "B"),
        ("It is the dark red square.", "C"),  # not A, whose text is in it
        ("the answer is a dog", "D"),  # "a" is an article
        ("<think>A or B? A!</think>\nD", "D"),
    ],
)
def test_forms_models_answer_in(text: str, letter: str) -> None:
    assert read_choice(text, OPTIONS) == letter


@pytest.mark.parametrize(
    "text",
    ["", "...", "Z", "I am not sure", "A or B", "none of them", "A cat is there", "<think>B"],
)
def test_what_names_no_letter_or_several_is_not_guessed(text: str) -> None:
    assert read_choice(text, OPTIONS) is None


def test_an_unreadable_answer_is_wrong_and_says_so() -> None:
    verdict = choice("I cannot tell", ("A",), OPTIONS)
    assert (verdict.score, verdict.read) == (0.0, None)
    assert choice("(A)", ("A",), OPTIONS).score == 1.0
    assert choice("(B)", ("A",), OPTIONS).score == 0.0


WRAPPINGS = ("{}", "({})", "{}.", "{})", " {}\n", "**{}**", "Answer: {}", "The answer is {}.")


@given(st.sampled_from("ABCDEFGH"), st.sampled_from(WRAPPINGS), st.integers(1, 8))
def test_a_wrapped_letter_is_read_if_it_is_offered(letter: str, form: str, count: int) -> None:
    options = [f"option text {number}" for number in range(count)]
    expected = letter if ord(letter) - ord("A") < count else None
    assert read_choice(form.format(letter), options) == expected
    assert read_choice(form.format(letter)) == letter


@given(st.text(), st.lists(st.text(), max_size=6))
def test_any_text_gives_an_offered_letter_or_none(text: str, options: list[str]) -> None:
    letter = read_choice(text, options)
    offered = "ABCDEFGH"[: len(options)] if options else "ABCDEFGH"
    assert letter is None or letter in offered


@given(st.sampled_from(range(4)))
def test_the_text_of_an_option_is_its_letter(place: int) -> None:
    assert read_choice(f"{OPTIONS[place].upper()}!", OPTIONS) == "ABCD"[place]
