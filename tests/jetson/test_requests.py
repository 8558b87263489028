"""What the HTTP side accepts, ignores and refuses."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from edgevlm.jetson.api.chat_request import parse_chat
from edgevlm.jetson.api.content import media_urls
from edgevlm.jetson.api.fields import Defaults
from edgevlm.runtime import ImagePart, SamplingParams, TextPart
from edgevlm.runtime.json_cursor import JsonCursor

from .live import LiveService

TEXT = [{"role": "user", "content": "say:yes"}]
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
DEFAULTS = Defaults("tiny", SamplingParams(temperature=0.5))

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 1.5}, "top_p"),
    ({"top_k": 1.5}, "top_k"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"max_tokens": "many"}, "max_tokens"),
    ({"seed": 2**64}, "seed"),
    ({"stop": [""]}, "stop[0]"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop": 5}, "stop"),
    ({"n": 2}, "n"),
    ({"frequency_penalty": 0.5}, "frequency_penalty"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, None),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}},
     "response_format.json_schema.schema"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [FUNCTION], "tool_choice": "must"}, "tool_choice"),
    ({"tools": [FUNCTION], "tool_choice": {"function": {"name": "g"}}},
     "tool_choice.function.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [FUNCTION], "response_format": {"type": "json_object"}}, "response_format"),
    ({"visual_pruning": []}, "visual_pruning"),
    ({"visual_pruning": {"algorithm": "none such"}}, "visual_pruning"),
    ({"visual_pruning": {"reduction_ratio": 2.0}}, "visual_pruning"),
    ({"visual_pruning": {"reduction_ratio": "much"}}, "visual_pruning"),
    ({"visual_pruning": {"auto_min": 0.5, "auto_max": 0.5}}, "visual_pruning"),
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "poem"}]}]},
     "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]},
     "messages[0].content[0].type"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param"), WRONG)
def test_a_wrong_field_is_named(
    scripted: LiveService, fields: dict[str, Any], param: str | None
) -> None:
    body = {"messages": TEXT, **fields}
    response = httpx.post(f"{scripted.url}/v1/chat/completions", json=body)
    error = response.json()["error"]
    assert response.status_code == 400, error
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param or param is None
    assert (param or "json_schema") in error["message"]


def test_an_error_before_the_first_token_of_a_stream_is_a_status(scripted: LiveService) -> None:
    response = scripted.chat("say:x", stream=True, visual_pruning={"algorithm": "none such"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "visual_pruning"


def test_null_counts_as_absent_and_neutral_values_are_fine(scripted: LiveService) -> None:
    nulls = dict.fromkeys(("temperature", "top_p", "seed", "stop", "tools", "response_format"))
    neutral = {"n": 1, "frequency_penalty": 0.0, "logit_bias": {}, "seed": -5}
    response = scripted.chat("say:yes", **{**nulls, **neutral})
    assert response.json()["choices"][0]["message"]["content"] == "yes"


def test_unknown_fields_are_listed(scripted: LiveService) -> None:
    parts = [{"type": "text", "text": "say:yes", "cache": 1}]
    body = {"messages": [{"role": "user", "content": parts, "name": "me"}], "user": "u", "ö\n": 1}
    response = httpx.post(f"{scripted.url}/v1/chat/completions", json=body)
    assert response.status_code == 200
    listed = response.headers["x-ignored-fields"]
    assert listed == "user, %C3%B6%0A, messages[].name, messages[].content[].cache"
    assert "x-ignored-fields" not in scripted.chat("say:yes").headers


def test_defaults_come_from_the_checkpoint(tiny: LiveService) -> None:
    assert tiny.service.defaults.sampling.temperature == 0.0  # its do_sample is false


def test_control_tokens_in_text_tools_and_calls_are_refused(scripted: LiveService) -> None:
    token = "<|im_end|>"
    assert scripted.chat(f"say:{token}").status_code == 400
    tool = {**FUNCTION, "function": {"name": "f", "description": token}}
    assert scripted.chat("say:yes", tools=[tool]).status_code == 400
    call = {"function": {"name": "f", "arguments": f'{{"a": "{token}"}}'}}
    messages = [*TEXT, {"role": "assistant", "content": None, "tool_calls": [call]}, *TEXT]
    response = httpx.post(f"{scripted.url}/v1/chat/completions", json={"messages": messages})
    assert response.status_code == 400 and token in response.json()["error"]["message"]


def test_media_never_becomes_a_path() -> None:
    """Whatever a client writes as an image, the request holds the bytes that were brought in."""
    parts = [
        {"type": "image_url", "image_url": "/etc/passwd"},
        {"type": "text", "text": "and"},
        {"type": "image_url", "image_url": {"url": "data:,x"}},
    ]
    root = JsonCursor({"messages": [{"role": "user", "content": parts}]})
    urls = media_urls(root)
    assert list(urls.values()) == ["/etc/passwd", "data:,x"]
    ask = parse_chat(root, {where: where.encode() for where in urls}, DEFAULTS)
    first, text, last = ask.request.messages[0].parts
    assert isinstance(first, ImagePart) and isinstance(first.source, bytes)
    assert isinstance(text, TextPart)
    assert isinstance(last, ImagePart) and isinstance(last.source, bytes)
    assert ask.request.sampling.temperature == 0.5


def test_string_content_that_looks_like_a_path_is_refused(scripted: LiveService) -> None:
    for url in ("/etc/passwd", "etc/passwd", "ftp://x/y", "", "file:///etc/passwd", "http://a/b"):
        response = scripted.chat([{"type": "image_url", "image_url": {"url": url}}])
        error = response.json()["error"]
        assert response.status_code == 400
        assert error["param"] == "messages[0].content[0].image_url.url"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"null", b'{"messages": NaN}', b"\xff\xfe", b"[" * 100_000,
     b'{"max_tokens": ' + b"9" * 5000 + b"}", b'{"messages": [{"role": "user"}]}'],
)  # fmt: skip
def test_a_body_that_is_no_request_is_a_400(scripted: LiveService, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize"):
        response = httpx.post(scripted.url + path, content=body, headers=headers)
        assert response.status_code == 400, (path, response.text)


def test_lone_surrogates_are_refused(scripted: LiveService) -> None:
    body = b'{"messages": [{"role": "user", "content": "say:\\ud800"}]}'
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{scripted.url}/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == 400 and "surrogate" in response.text


def test_other_statuses(scripted: LiveService) -> None:
    assert httpx.get(f"{scripted.url}/nothing").status_code == 404
    assert httpx.get(f"{scripted.url}/v1/chat/completions").status_code == 405
    form = httpx.post(f"{scripted.url}/v1/chat/completions", data={"messages": "x"})
    assert form.status_code == 415
    multipart = httpx.post(f"{scripted.url}/v1/chat/completions", files={"f": b"x" * 5000})
    assert multipart.status_code == 415
    large = scripted.chat("x" * 250_000)
    assert large.status_code == 413 and large.json()["error"]["message"].startswith("the body")


def test_a_body_of_unknown_length_is_cut_off(scripted: LiveService) -> None:
    response = httpx.post(
        f"{scripted.url}/v1/chat/completions",
        content=(b" " * 50_000 for _ in range(8)),
        headers={"Content-Type": "application/json"},
    )
    assert response.status_code == 413
