"""Tool calls in an answer's text: found, kept apart, and never mistaken."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.jetson.api.tool_parser import ToolCallParser

from .live import LiveService

CALL = '<tool_call>\n{"name": "look", "arguments": {"where": "left"}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "wait", "arguments": {}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "wait")]
TEXTS = (
    "plain",
    "a < b and <tool is no tag, nor <tool_cal",
    f"First I look.\n{CALL}",
    f"{CALL}\n{OTHER}",
    f"{CALL} and then",
    "<tool_call>not json</tool_call> after",
    '<tool_call>{"name": 5}</tool_call>',
    "<tool_call>\n{unfinished",
    "  spaces stay  ",
)


def parse(pieces: list[str]) -> tuple[str, list[tuple[str, str]]]:
    parser = ToolCallParser()
    text = "".join(parser.push(piece)[0] for piece in pieces) + parser.flush()
    return text, [(call.name, call.arguments) for call in parser.calls]


@given(text=st.sampled_from(TEXTS), cuts=st.lists(st.integers(0, 120), max_size=12))
def test_it_makes_no_difference_how_the_text_arrives(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert parse(pieces) == parse([text])


@pytest.mark.parametrize("text", [t for t in TEXTS if CALL not in t])
def test_text_without_a_call_is_untouched(text: str) -> None:
    assert parse([text]) == (text, [])


def test_calls_are_taken_out_and_text_is_kept() -> None:
    look = ("look", '{"where": "left"}')
    assert parse([f"First I look.\n{CALL}"]) == ("First I look.", [look])
    assert parse([f"{CALL}\n{OTHER}"]) == ("", [look, ("wait", "{}")])
    assert parse([f"{CALL} and then"]) == (" and then", [look])


def test_the_service_finds_calls_the_model_chose_to_make(scripted: LiveService) -> None:
    answer = scripted.chat(f"say:First I look.\n{CALL}\n{OTHER}", tools=TOOLS, temperature=0)
    choice = answer.json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "First I look."
    calls = choice["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["look", "wait"]
    assert json.loads(calls[0]["function"]["arguments"]) == {"where": "left"}
    plain = scripted.chat(f"say:{CALL}", temperature=0).json()["choices"][0]
    assert plain["message"]["content"] == CALL  # no tools were offered


def test_streamed_calls_have_an_index_and_come_whole(scripted: LiveService) -> None:
    stream = scripted.client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": f"say:Hm <b>\n{CALL}\n{OTHER}"}],
        tools=TOOLS,  # type: ignore[arg-type]
        temperature=0,
        stream=True,
    )
    deltas = [chunk.choices[0] for chunk in stream]
    assert "".join(d.delta.content or "" for d in deltas) == "Hm <b>"
    calls = [call for d in deltas for call in d.delta.tool_calls or ()]
    assert [(call.index, call.function and call.function.name) for call in calls] == [
        (0, "look"),
        (1, "wait"),
    ]
    assert deltas[-1].finish_reason == "tool_calls"


def test_a_conversation_with_calls_and_results_goes_in_again(scripted: LiveService) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer = scripted.client.chat.completions.create(
        model="tiny",
        messages=[
            {"role": "user", "content": "hello"},
            {"role": "assistant", "tool_calls": [call]},  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": "c", "content": "say:seen"},
        ],
        temperature=0,
    )
    assert answer.choices[0].message.content == "seen"
