"""Requests are checked when they are made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgevlm.core import RequestError
from edgevlm.runtime.request import (
    MAX_TEXT_BYTES,
    ChatRequest,
    ImagePart,
    Message,
    SamplingParams,
    TextPart,
    VideoPart,
)

HELLO = Message("user", "hello")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextPart(5), "text must be a string, got 5"),
        (lambda: TextPart("ab\ud800"), "unpaired surrogate at character 2"),
        (lambda: TextPart("é" * MAX_TEXT_BYTES), "at most 131072 are accepted"),
        (lambda: ImagePart(3.5), "an image must be a path, a data: URI"),
        (lambda: ImagePart("a.png", do_resize=1), "do_resize must be true or false, got 1"),
        (lambda: VideoPart("a.png", 1.0), "frames must be a list"),
        (lambda: VideoPart([], 1.0), "at least one frame"),
        (lambda: VideoPart(["a", 5], 1.0), "frame 1 must be"),
        (lambda: VideoPart(["a"], 0), "fps must be above 0, got 0"),
        (lambda: VideoPart(["a"], float("nan")), "fps must be above 0"),
        (lambda: Message("robot", "x"), "one of system, user, assistant, tool, got 'robot'"),
        (lambda: Message("user", []), "1 to 1024 parts, got 0"),
        (lambda: Message("user", ["x"]), "must be a TextPart, an ImagePart or a VideoPart"),
        (lambda: Message("user", None), "content must be a string or a list"),
        (lambda: SamplingParams(temperature=-1), "temperature must be a number >= 0, got -1"),
        (lambda: SamplingParams(temperature=float("inf")), "temperature must be"),
        (lambda: SamplingParams(temperature=True), "temperature must be"),
        (lambda: SamplingParams(top_p=1.5), "top_p must be 0..1, got 1.5"),
        (lambda: SamplingParams(top_k=-1), "top_k must be >= 0"),
        (lambda: SamplingParams(top_k=1.5), "top_k must be >= 0"),
        (lambda: SamplingParams(max_tokens=0), "max_tokens must be an integer >= 1, got 0"),
        (lambda: SamplingParams(seed=-1), "seed must be an integer"),
        (lambda: ChatRequest([]), "1 to 64 messages, got 0"),
        (lambda: ChatRequest([HELLO] * 65), "1 to 64 messages, got 65"),
        (lambda: ChatRequest(["hello"]), "list of Message objects"),
        (lambda: ChatRequest([HELLO], stop=["a", ""]), "none empty"),
        (lambda: ChatRequest([HELLO], visual_pruning="dart"), "object of pruner settings"),
    ],
)
def test_a_bad_value_is_named_with_what_is_legal(make: Callable[[], object], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        make()
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_media_keep_their_order() -> None:
    first, second, third = ImagePart("1"), VideoPart(["2"], 1.0), ImagePart("3")
    request = ChatRequest(
        [
            Message("user", [first, TextPart("and"), second]),
            Message("assistant", "text"),
            Message("user", [TextPart("now"), third]),
        ]
    )
    assert request.media == (first, second, third)


def test_lists_given_by_the_caller_are_not_shared() -> None:
    messages = [HELLO]
    request = ChatRequest(messages, stop="end")
    messages.append(HELLO)
    assert len(request.messages) == 1
    assert request.stop == ("end",)


def test_messages_are_shown_without_media_content() -> None:
    uri = "data:image/png;base64," + "A" * 1000
    parts = [ImagePart(uri), VideoPart(["a.png", np.zeros((2, 2, 3), np.uint8)], 2.0)]
    assert Message("user", [*parts, TextPart("hi")]).to_json() == {
        "role": "user",
        "content": [
            {"type": "image", "image": "<data: URI of 1022 characters>"},
            {"type": "video", "frames": ["a.png", "<array of shape [2, 2, 3]>"], "fps": 2.0},
            {"type": "text", "text": "hi"},
        ],
    }
    assert HELLO.to_json()["content"] == [{"type": "text", "text": "hello"}]


@pytest.mark.parametrize(
    ("params", "greedy"),
    [({}, False), ({"temperature": 0.0}, True), ({"top_k": 1}, True), ({"top_p": 0.0}, True)],
)
def test_greedy(params: dict[str, float], greedy: bool) -> None:
    assert SamplingParams(**params).greedy is greedy  # type: ignore[arg-type]
