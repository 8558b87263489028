"""``POST /v1/chat/completions``: the body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...runtime import ChatRequest, SamplingParams
from ...runtime.json_cursor import JsonCursor
from ..worker.messages import Grammar
from .ask import Ask
from .content import read_messages, unknown_in_messages
from .fields import (
    COMMON_FIELDS,
    Defaults,
    check_model,
    check_unsupported,
    read_flag,
    read_pruning,
    read_sampling,
    read_stop,
    read_streaming,
    unknown_fields,
)
from .tools import read_tools

CHAT_FIELDS = {
    *COMMON_FIELDS,
    "messages",
    "logprobs",
    "top_logprobs",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
}


def parse_chat(root: JsonCursor, images: Mapping[str, bytes], defaults: Defaults) -> Ask:
    """Parse a body whose images are at hand.

    Raises:
        RequestError: naming the field.
        ApiError: another model is asked for.
    """
    check_model(root, defaults)
    check_unsupported(root)
    stream, include_usage = read_streaming(root)
    tools = read_tools(root)
    grammar = _response_grammar(root)
    if grammar is not None and tools.parse:
        raise root["response_format"].error('cannot be combined with tools; set tool_choice "none"')
    with root["messages"].placed():
        request = ChatRequest(
            messages=read_messages(root, images),
            sampling=_with_logprobs(root, read_sampling(root, defaults)),
            stop=read_stop(root),
            visual_pruning=read_pruning(root),
            tools=tools.shown,
        )
    return Ask(
        request=request,
        grammar=grammar or tools.grammar,
        stream=stream,
        include_usage=include_usage,
        parse_tools=tools.parse,
        show_tokens=read_flag(root, "return_visual_tokens"),
        ignored=(*unknown_fields(root, CHAT_FIELDS), *unknown_in_messages(root)),
    )


def _with_logprobs(root: JsonCursor, params: SamplingParams) -> SamplingParams:
    wanted = read_flag(root, "logprobs")
    if "top_logprobs" not in root:
        return replace(params, logprobs=0) if wanted else params
    node = root["top_logprobs"]
    if not wanted:
        raise node.error("needs logprobs to be true")
    with node.placed():
        return replace(params, logprobs=node.integer())


def _response_grammar(root: JsonCursor) -> Grammar | None:
    if "response_format" not in root:
        return None
    node = root["response_format"]
    kind = node["type"].string()
    if kind == "text":
        return None
    if kind == "json_object":
        return Grammar("json_schema", ({"type": "object"},), node.where)
    if kind == "json_schema":
        schema = node["json_schema"]["schema"]
        return Grammar("json_schema", (schema.object(),), schema.where)
    raise node["type"].error(f"must be text, json_object or json_schema, found {kind[:40]!r}")
