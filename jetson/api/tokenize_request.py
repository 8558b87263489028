"""``POST /tokenize``: the body, a prompt or a conversation."""

from __future__ import annotations

from collections.abc import Mapping

from ...runtime import ChatRequest, Message
from ...runtime.json_cursor import JsonCursor
from .completion_request import read_prompt
from .content import read_messages, unknown_in_messages
from .fields import Defaults, check_model, read_flag, unknown_fields
from .tools import read_tools

TOKENIZE_FIELDS = {"model", "prompt", "messages", "tools", "add_generation_prompt"}


def parse_tokenize(
    root: JsonCursor, images: Mapping[str, bytes], defaults: Defaults
) -> tuple[ChatRequest, tuple[str, ...]]:
    """The request to tokenize, and fields that mean nothing here.

    Raises:
        RequestError: naming the field.
        ApiError: another model is asked for.
    """
    check_model(root, defaults)
    ignored = unknown_fields(root, TOKENIZE_FIELDS)
    if ("prompt" in root) == ("messages" in root):
        raise root.error('give either "prompt" or "messages"')
    if "prompt" in root:
        with root["prompt"].placed():
            message = Message("user", read_prompt(root["prompt"]))
        return ChatRequest((message,), apply_chat_template=False), ignored
    with root["messages"].placed():
        request = ChatRequest(
            messages=read_messages(root, images),
            tools=read_tools(root).shown,
            add_generation_prompt=read_flag(root, "add_generation_prompt", True),
        )
    return request, (*ignored, *unknown_in_messages(root))
