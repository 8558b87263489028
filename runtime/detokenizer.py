"""Streaming detokenisation: text appears as soon as it is certain, and never broken.

Two things make text uncertain: a character whose UTF-8 bytes are spread over several tokens, and
the beginning of what may become a stop string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\N{REPLACEMENT CHARACTER}"


class IncrementalDecoder:
    """Turns token ids into text pieces whose concatenation is the decoded whole.

    Args:
        decode: ids to text, special tokens skipped.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        # Tokens [context, done) give the decoder the left context of those not yet emitted.
        self._context = 0
        self._done = 0

    def push(self, token: int) -> str:
        """Add a token; return the text that became certain, often empty."""
        self._ids.append(token)
        piece = self._pending()
        if piece.endswith(_BROKEN):
            return ""
        self._context, self._done = self._done, len(self._ids)
        return piece

    def flush(self) -> str:
        """The rest at the end of generation; bytes of an unfinished character are dropped."""
        return self._pending().rstrip(_BROKEN)

    def _pending(self) -> str:
        known = self._decode(self._ids[self._context : self._done])
        return self._decode(self._ids[self._context :])[len(known) :]


class StopMatcher:
    """Ends a text before the first stop string, holding back what may become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, piece: str) -> str:
        """Add text; return what may be shown. Sets ``stopped`` once a stop string appeared."""
        if self.stopped:
            return ""
        text = self._held + piece
        found = [at for at in map(text.find, self._stops) if at >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((self._overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """The text held back, once it is known that no stop string follows."""
        held, self._held = self._held, ""
        return held

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """Length of the longest end of ``text`` that begins ``stop``."""
        lengths = range(min(len(text), len(stop) - 1), 0, -1)
        return next((n for n in lengths if text.endswith(stop[:n])), 0)
