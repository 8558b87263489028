"""The checkpoint's own tokenizer, and which of its tokens steer the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers

from ..core import CheckpointError
from .json_file import read_json

MEDIA_TOKENS = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)


class Tokenizer:
    """Text to ids and back, plus the ids that end an answer and those that may never be sampled.

    Args:
        backend: its truncation and padding are switched off; a prompt is never cut.
        eos_ids: ids that end an answer.
        special_tokens: named tokens the chat template may refer to, such as ``eos_token``.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        eos_ids: Sequence[int],
        special_tokens: dict[str, str] | None = None,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        self.eos_ids = frozenset(eos_ids)
        self.special_tokens = dict(special_tokens or {})
        added = backend.get_added_tokens_decoder().values()
        # Tokens such as <think> are added for convenience; a conversation may well hold them.
        control = {t.content for t in added if t.special or re.fullmatch(r"<\|.*\|>", t.content)}
        self._control = _any_of(control)
        media = [token for token in MEDIA_TOKENS if token in control]
        self._media = _any_of(media)
        self.never_sampled = tuple(sorted(self.token_id(token) for token in media))

    @classmethod
    def from_directory(cls, directory: Path) -> Tokenizer:
        """Read ``tokenizer.json`` and, for the ends of an answer, ``generation_config.json``.

        Raises:
            CheckpointError: a file is missing or unusable, or none names an end-of-sequence token.
        """
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file; copy it from the checkpoint")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path}: not a usable tokenizer ({error})") from None
        special = _special_tokens(read_json(directory / "tokenizer_config.json") or {})
        generation = read_json(directory / "generation_config.json") or {}
        ends = generation.get("eos_token_id")
        if ends is None:
            ends = backend.token_to_id(special.get("eos_token", ""))
        listed: list[Any] = ends if isinstance(ends, list) else [ends]
        ids = [index for index in listed if isinstance(index, int)]
        if not ids or len(ids) < len(listed):
            raise CheckpointError(
                f"{directory}: no end-of-sequence token; generation_config.json needs eos_token_id"
            )
        return cls(backend, ids, special)

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``, in which control tokens count as what they are. Nothing is added."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return str(self.backend.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def token_id(self, token: str) -> int:
        """The id of one token.

        Raises:
            CheckpointError: the vocabulary lacks it.
        """
        found = self.backend.token_to_id(token)
        if found is None:
            raise CheckpointError(f"the tokenizer has no token {token!r}")
        return int(found)

    def token(self, index: int) -> str:
        """The token with id ``index``.

        Raises:
            CheckpointError: the vocabulary has no such id.
        """
        found = self.backend.id_to_token(index)
        if found is None:
            raise CheckpointError(f"the tokenizer has no token with id {index}")
        return str(found)

    def find_control_token(self, text: str, *, media_only: bool = False) -> str | None:
        """The first control token spelled out in ``text``, before or after normalisation."""
        pattern = self._media if media_only else self._control
        normalizer = self.backend.normalizer
        normal = normalizer.normalize_str(text) if normalizer is not None else text
        found = pattern.search(text) or pattern.search(normal)
        return found.group() if found else None


def _any_of(tokens: Sequence[str] | set[str]) -> re.Pattern[str]:
    longest_first = sorted(tokens, key=lambda token: (-len(token), token))
    return re.compile("|".join(re.escape(token) for token in longest_first) or r"(?!)")


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Named tokens of ``tokenizer_config.json``, each a string or an object with ``content``."""
    found = {}
    for name, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found
