"""A text completion in OpenAI's words: as one object, or as the chunks of a stream."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ..worker.messages import Done, Piece, ShownLogprob
from .ask import Ask
from .usage import extras, finish_reason, usage


class CompletionReply:
    """Writes one answer."""

    def __init__(self, ask: Ask, model: str) -> None:
        self._ask = ask
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        self._text: list[str] = []
        self._shown: list[ShownLogprob] = []

    def opening(self) -> list[dict[str, Any]]:
        """Nothing: a text has no role to announce."""
        return []

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The chunk for a piece of the answer."""
        before = sum(len(entry.token) for entry in self._shown)
        self._text.append(piece.text)
        self._shown += piece.logprobs
        return [self._object(piece.text, None, list(piece.logprobs), before)]

    def closing(self, done: Done) -> list[dict[str, Any]]:
        """The last chunks."""
        last = self._object("", finish_reason(done), [], 0) | extras(done, self._ask.show_tokens)
        if not self._ask.include_usage:
            return [last]
        return [last, {**self._head, "choices": [], "usage": usage(done)}]

    def whole(self, done: Done) -> dict[str, Any]:
        """Everything in one object, after all pieces."""
        body = self._object("".join(self._text), finish_reason(done), self._shown, 0)
        return body | {"usage": usage(done)} | extras(done, self._ask.show_tokens)

    def _object(
        self, text: str, reason: str | None, shown: list[ShownLogprob], offset: int
    ) -> dict[str, Any]:
        logprobs = None
        if self._ask.request.sampling.logprobs is not None:
            logprobs = _legacy_logprobs(shown, offset)
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "choices": [choice]}


def _legacy_logprobs(shown: list[ShownLogprob], offset: int) -> dict[str, Any]:
    offsets = []
    for entry in shown:
        offsets.append(offset)
        offset += len(entry.token)
    return {
        "tokens": [entry.token for entry in shown],
        "token_logprobs": [entry.logprob for entry in shown],
        "top_logprobs": [{token: value for token, _, value in entry.top} for entry in shown],
        "text_offset": offsets,
    }
