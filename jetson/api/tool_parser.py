"""Finding tool calls in an answer that is still being written.

Qwen writes ``<tool_call>``, a JSON object with ``name`` and ``arguments``, ``</tool_call>``. What
only looks like the beginning of a tag is text, and so is a call that is not such an object.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from ..worker.grammar_tags import TOOL_CALL

_BEGIN, _END = TOOL_CALL


@dataclass(frozen=True)
class ToolCall:
    """One call; ``arguments`` is JSON."""

    name: str
    arguments: str
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")

    def to_json(self, index: int | None = None) -> dict[str, Any]:
        """OpenAI's object; chunks of a stream carry the ``index`` too."""
        place = {} if index is None else {"index": index}
        function = {"name": self.name, "arguments": self.arguments}
        return {**place, "id": self.id, "type": "function", "function": function}


class ToolCallParser:
    """Splits text into what is shown and calls."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._space = ""  # white space that belongs to a call if one follows, else to the text
        self.calls: list[ToolCall] = []

    def push(self, text: str) -> tuple[str, list[ToolCall]]:
        """Add text; returns what is certain now: text to show, and complete calls."""
        self._held += text
        shown: list[str] = []
        calls: list[ToolCall] = []
        while True:
            tag = _END if self._inside else _BEGIN
            before, found, after = self._held.partition(tag)
            if not found:
                break
            self._held = after
            if self._inside:
                call = _parse(before)
                if call is None:
                    shown.append(self._text(f"{_BEGIN}{before}{_END}"))
                else:
                    calls.append(call)
                    self._space = ""
            else:
                shown.append(self._text(before))
            self._inside = not self._inside
        if not self._inside:
            keep = _overlap(self._held, _BEGIN)
            end = len(self._held) - keep
            shown.append(self._text(self._held[:end]))
            self._held = self._held[end:]
        self.calls += calls
        return "".join(shown), calls

    def flush(self) -> str:
        """What is left at the end: no call, so text."""
        rest = (_BEGIN if self._inside else "") + self._held
        self._held, self._inside = "", False
        if not rest and self.calls:
            return ""
        rest, self._space = self._space + rest, ""
        return rest

    def _text(self, text: str) -> str:
        """Hold trailing white space back: before and between calls it is layout."""
        text = self._space + text
        bare = text.rstrip()
        self._space = text[len(bare) :]
        return bare


def _parse(text: str) -> ToolCall | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        return None
    return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of ``text`` that begins ``tag``."""
    lengths = range(min(len(text), len(tag) - 1), 0, -1)
    return next((n for n in lengths if text.endswith(tag[:n])), 0)
