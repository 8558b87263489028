"""Chat templates: rendered as published, safely, from every place they are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from edgevlm.core import CheckpointError, RequestError
from edgevlm.runtime.chat_template import ChatTemplate
from edgevlm.runtime.request import ImagePart, Message, Part, TextPart, VideoPart

from .sample_checkpoint import TEMPLATE

PARTS = st.one_of(
    st.text(max_size=8).map(TextPart),
    st.just(ImagePart("a.png")),
    st.just(VideoPart(["a.png"], 1.0)),
)
CONTENTS = st.text(max_size=8) | st.lists(PARTS, min_size=1, max_size=5)
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant", "tool"]), CONTENTS),
    min_size=1,
    max_size=4,
)


def published(source: str, messages: list[Message], **variables: Any) -> str:
    def part(value: Part) -> dict[str, str]:
        if isinstance(value, TextPart):
            return {"type": "text", "text": value.text}
        return {"type": "image" if isinstance(value, ImagePart) else "video"}

    chat = [
        {
            "role": message.role,
            "content": message.content
            if isinstance(message.content, str)
            else [part(value) for value in message.content],
        }
        for message in messages
    ]
    return str(render_jinja_template([chat], chat_template=source, **variables)[0][0])


@given(MESSAGES, st.booleans())
def test_equals_the_published_rendering(messages: list[Message], prompt: bool) -> None:
    rendered = ChatTemplate(TEMPLATE, "test").render(messages, add_generation_prompt=prompt)
    assert rendered == published(TEMPLATE, messages, add_generation_prompt=prompt)


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
        "{{ messages | tojson }} {{ {'b': '<é>', 'a': 1} | tojson(indent=2, sort_keys=true) }}",
        "{% generation %}\n  {{ messages[0].content }}\n{% endgeneration %}",
        "  {% if true %}\n    a\n  {% endif %}\n  b\n",
        "{{ strftime_now('%Y') }}",
        "{{ eos_token }}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}",
        "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}",
    ],
)
def test_everything_templates_are_offered(source: str) -> None:
    messages = [Message("user", "<hi>"), Message("assistant", "é")]
    template = ChatTemplate(source, "test", {"eos_token": "<end>"})
    for variables in ({}, {"enable_thinking": False}):
        expected = published(source, messages, eos_token="<end>", **variables)
        assert template.render(messages, add_generation_prompt=False, **variables) == expected


def test_media_and_text_keep_their_order() -> None:
    parts = [TextPart("a"), ImagePart("x"), TextPart("b"), VideoPart(["y"], 1.0), TextPart("c")]
    rendered = ChatTemplate(TEMPLATE, "test").render([Message("user", parts)])
    media = "<|vision_start|><|{}_pad|><|vision_end|>"
    assert f"a{media.format('image')}b{media.format('video')}c<|im_end|>" in rendered


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "refuses .*: roles must alternate"),
        ("{{ messages[0].content.nothing.more }}", "refuses"),
        ("{{ messages[0].content + 1 }}", "fails"),
        ("{{ ''.__class__.__mro__ }}", "refuses"),
        ("{{ messages.append(1) }}", "refuses"),
        ("{{ range(10000000) | list }}", "fails"),
    ],
)
def test_a_template_can_only_fail_its_request(source: str, message: str) -> None:
    with pytest.raises(RequestError, match=f"the chat template {message}"):
        ChatTemplate(source, "test").render([Message("user", "hi")])


def test_where_templates_are_kept(tmp_path: Path) -> None:
    def rendered() -> str:
        return ChatTemplate.from_directory(tmp_path).render([Message("user", "hi")])

    def write(name: str, value: object) -> None:
        (tmp_path / name).write_text(json.dumps({"chat_template": value}))

    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: no such file"):
        rendered()
    choices = {"tool_use": "T", "default": "D"}
    named = [{"name": name, "template": source} for name, source in choices.items()]
    write("tokenizer_config.json", named)
    assert rendered() == "D"
    write("tokenizer_config.json", "C")
    assert rendered() == "C"
    write("chat_template.json", "B")
    assert rendered() == "B"
    (tmp_path / "chat_template.jinja").write_text("A")
    assert rendered() == "A"
    (tmp_path / "chat_template.jinja").write_text("a\n{% if %}")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: line 2: "):
        rendered()
