"""Continuous batching: prompts prefill one at a time, all active slots decode in one step.

Decoding runs over slots ``0..n-1``, so slots are kept dense: a hole left by a finished request is
taken by the next waiting prompt, or else by moving the last slot's KV rows into it. The engine
never computes an idle row, and a request's rows never depend on which slot it is in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import RequestError
from .embeddings import embed_tokens
from .engines import DecodeBatch, LLMEngine
from .logprobs import TokenLogprob, token_logprobs
from .request import ChatRequest
from .response import FinishReason, Response, TextDelta
from .sampler import sample
from .sequence import Sequence
from .timing import RequestTiming, now_ms

Event = TextDelta | Response
Admit = Callable[[int, int, ChatRequest, RequestTiming], tuple[Sequence, Tensor]]
"""``(slot, index, request, timing) -> (sequence, logits [V])``: prepares and prefills a prompt."""

_BROKEN_LOGITS = (
    "the language model produced NaN or infinite logits; if the engine is float16, its activations"
    " may exceed 65504: build it with --dtype bfloat16 or float32"
)
_STUCK = "the grammar of this answer allows no further token; simplify the schema"


@dataclass(frozen=True)
class DecodeTotals:
    """All decode steps so far: how many, the tokens they made, their wall-clock time."""

    steps: int = 0
    tokens: int = 0
    time_ms: float = 0.0

    def __sub__(self, earlier: DecodeTotals) -> DecodeTotals:
        return DecodeTotals(
            self.steps - earlier.steps, self.tokens - earlier.tokens, self.time_ms - earlier.time_ms
        )


class Scheduler:
    """Runs requests through an engine's slots. Not thread-safe: one thread calls it.

    Args:
        engine: the language model.
        admit: prepares and prefills one prompt; raises ``RequestError`` to refuse it.
        forbidden: int64 token ids that are never sampled.
        max_batch: slots to use, at most the engine's.
    """

    def __init__(
        self, engine: LLMEngine, admit: Admit, forbidden: Iterable[int], max_batch: int
    ) -> None:
        self._engine = engine
        self._admit = admit
        self._forbidden = torch.tensor(sorted(forbidden), dtype=torch.int64, device=engine.device)
        self._slots: list[Sequence | None] = []
        self._max_batch = max_batch
        self._waiting: deque[tuple[int, ChatRequest, RequestTiming]] = deque()
        self.totals = DecodeTotals()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and not any(self._slots)

    def submit(self, index: int, request: ChatRequest) -> None:
        """Queue a request; its events carry ``index``."""
        self._waiting.append((index, request, RequestTiming()))

    def cancel(self, index: int) -> Response | None:
        """Stop request ``index`` wherever it is; its slot is free for the next step."""
        for entry in self._waiting:
            if entry[0] == index:
                self._waiting.remove(entry)
                return Response(index, entry[1], "", (), FinishReason.CANCELLED, timing=entry[2])
        for slot, sequence in enumerate(self._slots):
            if sequence is not None and sequence.index == index:
                self._slots[slot] = None
                return sequence.response()
        return None

    def step(self, *, decode: bool = True) -> list[Event]:
        """Admit at most one waiting prompt, then decode one token for every active slot.

        Args:
            decode: false leaves that out, so that several prompts begin to decode together.
        """
        events: list[Event] = []
        if self._waiting:
            self._admit_next(events)
        self._close_holes()
        if self._slots and decode:
            self._decode(events)
        return events

    def _admit_next(self, events: list[Event]) -> None:
        holes = [slot for slot, sequence in enumerate(self._slots) if sequence is None]
        slot = holes[0] if holes else len(self._slots)
        if slot >= self._max_batch:
            return
        index, request, timing = self._waiting.popleft()
        timing.start()
        try:
            sequence, logits = self._admit(slot, index, request, timing)
        except RequestError as error:
            events.append(
                Response(
                    index, request, "", (), FinishReason.ERROR, timing=timing, error=str(error)
                )
            )
            return
        if slot == len(self._slots):
            self._slots.append(None)
        self._slots[slot] = sequence
        tokens = sample(logits[None], [sequence.sampler], self._forbidden)
        try:
            # Read only now, when the device has been waited for anyway.
            sequence.report.require_finite()
        except RequestError as error:
            events.append(sequence.response(error=str(error)))
            self._slots[slot] = None
            return
        logprobs = token_logprobs(logits[None], tokens, [request.sampling.logprobs])
        self._accept(slot, sequence, tokens[0], logprobs[0], events)

    def _decode(self, events: list[Event]) -> None:
        begin = now_ms()
        active = [sequence for sequence in self._slots if sequence is not None]
        ids = torch.tensor([sequence.token_ids[-1] for sequence in active])
        batch = DecodeBatch(
            embeds=embed_tokens(self._engine, ids),
            positions=torch.tensor([s.position for s in active], device=self._engine.device),
            lengths=tuple(s.length for s in active),
            generated=min(len(s.token_ids) for s in active),
        )
        logits = self._engine.decode(batch)  # [n,V]
        tokens = sample(logits, [s.sampler for s in active], self._forbidden)
        logprobs = token_logprobs(logits, tokens, [s.request.sampling.logprobs for s in active])
        done = self.totals
        self.totals = DecodeTotals(
            done.steps + 1, done.tokens + len(active), done.time_ms + now_ms() - begin
        )
        for slot, (sequence, token, logprob) in enumerate(
            zip(active, tokens, logprobs, strict=True)
        ):
            sequence.advance()
            self._accept(slot, sequence, token, logprob, events)

    def _accept(
        self,
        slot: int,
        sequence: Sequence,
        token: int | None,
        logprob: TokenLogprob | None,
        events: list[Event],
    ) -> None:
        if token is None:
            constraint = sequence.sampler.constraint
            stuck = constraint is not None and not constraint.allowed().any()
            events.append(sequence.response(error=_STUCK if stuck else _BROKEN_LOGITS))
            self._slots[slot] = None
            return
        delta = sequence.accept(token, logprob)
        if delta is not None:
            events.append(delta)
        if sequence.finish_reason is not None:
            events.append(sequence.response())
            self._slots[slot] = None

    def _close_holes(self) -> None:
        """Make the active slots the first ones, moving as few as possible."""
        slots = self._slots
        for target in range(len(slots)):
            while slots and slots[-1] is None:
                slots.pop()
            if target < len(slots) and slots[target] is None:
                last = slots.pop()
                assert last is not None
                self._engine.move_slot(len(slots), target, last.length)
                slots[target] = last
