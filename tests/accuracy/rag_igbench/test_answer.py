"""Markdown of answers, and outputs that hold none."""

from __future__ import annotations

import json

import pytest

from edgevlm.accuracy.rag_igbench import answer_of, read_markdown


def test_images_contexts_and_text() -> None:
    read = read_markdown(
        "0123456789abcdefghijklmno![](IMG#2)xyz<sup>[1](doc)</sup> ![alt](IMG#12)end"
    )
    assert read.images == (2, 12)
    assert read.text == "0123456789abcdefghijklmnoxyz end"
    # 20 characters on either side, of which the neighbour takes its part; the citation takes none.
    assert read.contexts == {2: "56789abcdefghijklmnoxyz en", 12: "jklmnoxyz end"}


def test_a_neighbour_cut_in_two_stays_in_the_context() -> None:
    contexts = read_markdown("a![](IMG#1)" + "x" * 12 + "![](IMG#2)").contexts
    assert contexts == {1: "a" + "x" * 12 + "![](IMG#", 2: "](IMG#1)" + "x" * 12}


def test_a_repeated_image_is_listed_twice_and_its_last_context_counts() -> None:
    read = read_markdown("first![](IMG#1)" + "." * 40 + "![](IMG#1)last")
    assert read.images == (1, 1)
    assert read.contexts == {1: "." * 20 + "last"}


def test_an_image_swallowed_by_a_citation_is_listed_without_context() -> None:
    read = read_markdown("a<sup>[1]</sup>![](IMG#3)<sup>[2](doc)</sup>b")
    assert (read.images, read.contexts, read.text) == ((3,), {}, "ab")


@pytest.mark.parametrize("markdown", ["", "text", "![](IMG#x)", "![](http://a/b.jpg)"])
def test_no_image(markdown: str) -> None:
    assert read_markdown(markdown).images == ()


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ('{"answer": "a ![](IMG#1)"}', "a ![](IMG#1)"),
        ('```json\n{"answer": "a"}\n```', "a"),
        ('{"answer":"a"}', "a"),
        ('{"answer": "a\\nb"}', "a<br>b"),
        ('{"answer": "a \\"b\\""}', 'a "b"'),
        ('Here it is: {"answer": "a"}', "a"),
        ('{"answer": "a\nb"}', "a<br>b"),
        ('{"answer": "a\nb\\nc"}', "a<br>b<br>c"),
        ('{"answer": "a "b" c"}', "a 'b' c"),
        ('{"answer": "cut off', "cut off"),
        ('{"answer": "cut off"', "cut off"),
        ('{"answer": "no quote}', "no quote"),
        ('{"answer": ""}', ""),
    ],
)
def test_answers_found(output: str, answer: str) -> None:
    assert answer_of(output) == answer


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no JSON at all",
        "[]",
        '"answer"',
        "{",
        '{"reply": "a"}',
        '{"answer": 3}',
        '{"answer": null}',
        '{"answer": ["a"]}',
        '{"answer": "bad \\x escape"}',
        "[" * 100_000,
    ],
)
def test_invalid_answers(output: str) -> None:
    assert answer_of(output) is None


def test_valid_json_comes_back_as_it_was() -> None:
    text = "quotes \" and ' and \\ and ünïcode"
    assert answer_of(json.dumps({"answer": text, "other": 1})) == text
