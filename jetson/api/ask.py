"""A parsed request: what goes to the engine, and how the answer is to be written."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime import ChatRequest
from ..worker.messages import Grammar


@dataclass(frozen=True)
class Ask:
    """One request.

    Args:
        include_usage: whether a stream ends with a chunk of usage.
        parse_tools: whether tool calls in the answer's text become ``tool_calls``.
        show_tokens: whether to say which visual tokens were kept.
        ignored: fields that were given and mean nothing here.
    """

    request: ChatRequest
    grammar: Grammar | None = None
    stream: bool = False
    include_usage: bool = False
    parse_tools: bool = False
    show_tokens: bool = False
    ignored: tuple[str, ...] = ()
