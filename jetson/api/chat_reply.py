"""A chat answer in OpenAI's words: as one object, or as the chunks of a stream."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ..worker.messages import Done, Piece, ShownLogprob
from .ask import Ask
from .tool_parser import ToolCall, ToolCallParser
from .usage import extras, finish_reason, usage


class ChatReply:
    """Writes one answer."""

    def __init__(self, ask: Ask, model: str) -> None:
        self._ask = ask
        self._tools = ToolCallParser() if ask.parse_tools else None
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._calls = 0

    def opening(self) -> list[dict[str, Any]]:
        """The first chunk."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """Chunks for a piece of the answer, none where nothing became certain."""
        text, calls = (piece.text, []) if self._tools is None else self._tools.push(piece.text)
        logprobs = [_logprob(entry) for entry in piece.logprobs]
        self._logprobs += logprobs
        return self._chunks(text, calls, logprobs)

    def closing(self, done: Done) -> list[dict[str, Any]]:
        """The last chunks."""
        chunks = self._chunks(self._tools.flush() if self._tools else "", [], [])
        last = self._chunk({}, self._reason(done)) | extras(done, self._ask.show_tokens)
        chunks.append(last)
        if self._ask.include_usage:
            chunks.append(self._object("chat.completion.chunk", choices=[], usage=usage(done)))
        return chunks

    def whole(self, done: Done) -> dict[str, Any]:
        """Everything in one object, after all pieces."""
        if self._tools is not None:
            self._text.append(self._tools.flush())
        text = "".join(self._text)
        calls = [call.to_json() for call in self._tools.calls] if self._tools else []
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message |= {"content": text or None, "tool_calls": calls}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": self._wrapped(self._logprobs),
            "finish_reason": self._reason(done),
        }
        body = self._object("chat.completion", choices=[choice], usage=usage(done))
        return body | extras(done, self._ask.show_tokens)

    def _chunks(
        self, text: str, calls: list[ToolCall], logprobs: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        self._text.append(text)
        chunks = [self._chunk({"content": text}, logprobs=logprobs)] if text or logprobs else []
        for call in calls:
            chunks.append(self._chunk({"tool_calls": [call.to_json(self._calls)]}))
            self._calls += 1
        return chunks

    def _chunk(
        self,
        delta: dict[str, Any],
        reason: str | None = None,
        logprobs: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": self._wrapped(logprobs or []) if logprobs else None,
            "finish_reason": reason,
        }
        return self._object("chat.completion.chunk", choices=[choice])

    def _object(self, kind: str, **values: Any) -> dict[str, Any]:
        return {**self._head, "object": kind, **values}

    def _reason(self, done: Done) -> str:
        called = self._tools is not None and self._tools.calls
        return "tool_calls" if called else finish_reason(done)

    def _wrapped(self, logprobs: list[dict[str, Any]]) -> dict[str, Any] | None:
        wanted = self._ask.request.sampling.logprobs is not None
        return {"content": logprobs, "refusal": None} if wanted else None


def _logprob(entry: ShownLogprob) -> dict[str, Any]:
    return {
        "token": entry.token,
        "logprob": entry.logprob,
        "bytes": list(entry.data),
        "top_logprobs": [
            {"token": token, "logprob": value, "bytes": list(data)}
            for token, data, value in entry.top
        ],
    }
