"""Answers that follow a grammar: llguidance's masks behind the runtime's constraint."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from torch import Tensor

from ...core import RequestError
from ...runtime.constraint import MakeConstraint
from ...runtime.tokenizer import Tokenizer
from .grammar_tags import TOOL_CALL
from .messages import Grammar

_JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class GrammarCompiler:
    """Compiles grammars for one tokenizer. Its methods may be called from any thread.

    Args:
        vocabulary: rows of the model's output, which may exceed the tokenizer's entries.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._compiled: LLTokenizer | None = None

    def compile(self, grammar: Grammar) -> MakeConstraint:
        """Return what makes the constraint of one answer.

        Raises:
            RequestError: a schema is not one, or uses what is not supported.
        """
        matcher = LLMatcher(self._backend(), self._source(grammar), log_level=0)
        if matcher.is_error():
            reason = matcher.get_error().splitlines()[0]
            raise RequestError(f"{grammar.param}: not a usable JSON schema: {reason}")
        return lambda: GrammarConstraint(matcher.deep_copy(), self._vocabulary)

    def _backend(self) -> LLTokenizer:
        """Made when first needed: it costs a second with a large vocabulary."""
        if self._compiled is None:
            tokenizer = self._tokenizer
            self._compiled = LLTokenizer(
                tokenizer.backend.to_str(),
                n_vocab=self._vocabulary,
                eos_token=sorted(tokenizer.eos_ids),
            )
        return self._compiled

    def _source(self, grammar: Grammar) -> str:
        if grammar.kind == "json_schema":
            return LLMatcher.grammar_from_json_schema(
                json.dumps(_styled(grammar.schemas[0])), overrides=None
            )
        begin, end = (self._literal(tag) for tag in TOOL_CALL)
        body = json.dumps(_styled({"anyOf": list(grammar.schemas)}))
        more = ' ("\\n" call)*' if grammar.several else ""
        lark = f'start: call{more}\ncall: {begin} "\\n" body "\\n" {end}\nbody: %json {body}\n'
        return LLMatcher.grammar_from_lark(lark)

    def _literal(self, tag: str) -> str:
        """A tag in Lark: bare where it is one token of the vocabulary, else as quoted text."""
        is_token = self._tokenizer.backend.token_to_id(tag) is not None
        return tag if is_token else json.dumps(tag)


class GrammarConstraint:
    """One answer on its way through a grammar."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary

    @property
    def finished(self) -> bool:
        """Whether nothing but the end may follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def allowed(self) -> Tensor:
        """Bool ``[V]``; all false once the grammar has become too much for the parser."""
        if self._matcher.is_error():
            return torch.zeros(self._vocabulary, dtype=torch.bool)
        words = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        bits = np.unpackbits(words, bitorder="little")[: self._vocabulary]
        return torch.from_numpy(bits.astype(np.bool_))

    def accept(self, token: int) -> None:
        """Follow the chosen token."""
        self._matcher.consume_token(token)


def _styled(schema: Any) -> Any:
    """The schema with the spacing models write. A schema's own wishes for it come last."""
    if not isinstance(schema, dict):
        return schema
    return {"x-guidance": _JSON_STYLE, **schema}
