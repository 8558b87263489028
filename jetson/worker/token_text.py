"""Single tokens as text and bytes, for log probabilities."""

from __future__ import annotations

from functools import cached_property

from ...runtime.logprobs import TokenLogprob
from ...runtime.tokenizer import Tokenizer
from .messages import ShownLogprob


class TokenText:
    """Shows tokens of one byte-level vocabulary.

    A token may hold part of a character only; its bytes are exact, its text then is not.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def show(self, logprob: TokenLogprob) -> ShownLogprob:
        """The same with text instead of numbers."""
        data = self.data(logprob.token_id)
        top = tuple((_text(d), d, p) for d, p in ((self.data(i), p) for i, p in logprob.top))
        return ShownLogprob(_text(data), data, logprob.logprob, top)

    def data(self, token: int) -> bytes:
        """The bytes a token stands for; those of its name if it is a control token."""
        name = self._tokenizer.backend.id_to_token(token)
        if name is None:  # a row of the output that no token belongs to
            return b""
        known = self._byte_of
        if token not in self._added and all(character in known for character in name):
            return bytes(known[character] for character in name)
        return name.encode("utf-8")

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self._tokenizer.backend.get_added_tokens_decoder())

    @cached_property
    def _byte_of(self) -> dict[str, int]:
        """Byte-level BPE writes each byte as one printable character: itself where it is one."""
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = [byte for byte in range(256) if byte not in printable]
        table = {chr(byte): byte for byte in printable}
        return table | {chr(256 + place): byte for place, byte in enumerate(rest)}


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
