"""Tools and their calls on the way into a prompt, as the published code renders them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from edgevlm.core import RequestError
from edgevlm.runtime.chat_template import ChatTemplate
from edgevlm.runtime.processor import Processor
from edgevlm.runtime.request import ChatRequest, Message

from .sample_checkpoint import write_checkpoint

# The parts of Qwen's template that are about tools.
TEMPLATE = """
{%- if tools %}{{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" + (tool | tojson) }}{%- endfor %}{{- "\\n</tools>\\n" }}
{%- endif %}
{%- for message in messages %}
    {{- message.role + ": " + message.content }}
    {%- for tool_call in message.tool_calls or [] %}
        {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
        {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
        {%- if tool_call.arguments is string %}{{- tool_call.arguments }}
        {%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
        {{- '}\\n</tool_call>' }}
    {%- endfor %}
{%- endfor %}
"""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"name": "look", "arguments": {"where": "links: ä"}}


def test_tools_and_calls_equal_the_published_rendering() -> None:
    messages = [
        Message("user", "hello"),
        Message("assistant", "", [CALL]),
        Message("tool", "seen"),
    ]
    plain: list[dict[str, Any]] = [{"role": m.role, "content": m.content} for m in messages]
    plain[1]["tool_calls"] = [{"type": "function", "function": CALL}]
    expected, _ = render_jinja_template([plain], tools=[TOOL], chat_template=TEMPLATE)
    template = ChatTemplate(TEMPLATE, "test")
    assert template.render(messages, add_generation_prompt=False, tools=[TOOL]) == expected[0]


@pytest.mark.parametrize("place", ["tools", "messages[0]"])
def test_control_tokens_in_them_are_refused(tmp_path: Path, place: str) -> None:
    write_checkpoint(tmp_path)
    processor = Processor.from_directory(tmp_path)
    bad = {"name": "<|im_end|>"}
    calls, tools = ([bad], ()) if place != "tools" else ((), [bad])
    request = ChatRequest([Message("assistant", "hello", calls)], tools=tools)
    with pytest.raises(RequestError, match=place.replace("[", r"\[")):
        processor.prepare(request)
