"""``POST /v1/completions``: the body. The prompt goes to the model as it is, with no roles."""

from __future__ import annotations

from dataclasses import replace

from ...runtime import ChatRequest, Message
from ...runtime.json_cursor import JsonCursor
from .ask import Ask
from .fields import (
    COMMON_FIELDS,
    Defaults,
    check_model,
    check_unsupported,
    read_pruning,
    read_sampling,
    read_stop,
    read_streaming,
    unknown_fields,
)

COMPLETION_FIELDS = {*COMMON_FIELDS, "prompt", "logprobs"}


def parse_completion(root: JsonCursor, defaults: Defaults) -> Ask:
    """Parse a body.

    Raises:
        RequestError: naming the field.
        ApiError: another model is asked for.
    """
    check_model(root, defaults)
    check_unsupported(root)
    stream, include_usage = read_streaming(root)
    params = read_sampling(root, defaults)
    if "logprobs" in root:
        with root["logprobs"].placed():
            params = replace(params, logprobs=root["logprobs"].integer())
    with root["prompt"].placed():
        request = ChatRequest(
            messages=(Message("user", read_prompt(root["prompt"])),),
            sampling=params,
            stop=read_stop(root),
            visual_pruning=read_pruning(root),
            apply_chat_template=False,
        )
    return Ask(
        request=request,
        stream=stream,
        include_usage=include_usage,
        ignored=unknown_fields(root, COMPLETION_FIELDS),
    )


def read_prompt(node: JsonCursor) -> str:
    """One string, alone or in a list.

    Raises:
        RequestError: it is anything else.
    """
    if isinstance(node.value, list):
        nodes = list(node.items())
        if len(nodes) != 1 or not isinstance(nodes[0].value, str):
            raise node.error("must be one string; send several prompts as several requests")
        node = nodes[0]
    return node.string()
