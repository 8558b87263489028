"""Token ids of a prompt, as the chat template renders it: a shared prefix, then one branch."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tokenizers import Tokenizer

from .buckets import Bucket
from .questions import Question

# Longest answer in tokens, <|im_end|> included.
MAX_ANSWER = 5


@dataclass(frozen=True)
class Branch:
    """A question and its answer: ``tokens[start:]`` is what the model must produce."""

    tokens: tuple[int, ...]
    start: int

    def __post_init__(self) -> None:
        if not 0 < self.start < len(self.tokens) <= self.start + MAX_ANSWER:
            raise ValueError(f"an answer of 1-{MAX_ANSWER} tokens, not {self}")


class ChatEncoder:
    """Encodes prompts of images followed by one question.

    ``prefix(bucket) + branch(question).tokens`` are the ids of the chat template's text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # A few hundred distinct questions make up most of a stream.
        self._encode = functools.lru_cache(maxsize=65536)(self._encode_text)

    def token_id(self, token: str) -> int:
        """Id of one vocabulary entry."""
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ValueError(f"the vocabulary has no {token!r}")
        return int(found)

    def prefix(self, bucket: Bucket) -> tuple[int, ...]:
        """Everything before the question: the turn's start and one placeholder per visual token."""
        rows, columns = bucket.token_grid
        image = f"<|vision_start|>{'<|image_pad|>' * rows * columns}<|vision_end|>"
        return self._encode("<|im_start|>user\n" + image * bucket.images)

    def branch(self, question: Question) -> Branch:
        """The question, the assistant's turn and its end."""
        asked = self._encode(question.text + "<|im_end|>\n<|im_start|>assistant\n")
        answer = self._encode(question.answer + "<|im_end|>")
        return Branch(asked + answer, len(asked))

    def _encode_text(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
