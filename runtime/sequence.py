"""The state of one request while it occupies a slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..pruners import PruneReport
from .detokenizer import IncrementalDecoder, StopMatcher
from .logprobs import TokenLogprob
from .prompt import PreparedPrompt
from .request import ChatRequest
from .response import FinishReason, Response, TextDelta
from .sampler import TokenSampler
from .timing import RequestTiming


@dataclass
class Sequence:
    """A prompt in the KV cache and the answer growing from it.

    Attributes:
        length: KV slots filled so far.
        position: mRoPE position of the token that is fed next.
        budget: tokens it may still generate.
    """

    index: int
    request: ChatRequest
    prompt: PreparedPrompt
    report: PruneReport
    length: int
    position: int
    budget: int
    timing: RequestTiming
    decode: Callable[[list[int]], str]
    eos_ids: frozenset[int]
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        self.prompt_tokens = self.length
        constraint = self.request.constraint
        self.sampler = TokenSampler(self.request.sampling, constraint() if constraint else None)
        self._decoder = IncrementalDecoder(self.decode)
        self._stops = StopMatcher(self.request.stop)

    def accept(self, token: int, logprob: TokenLogprob | None = None) -> TextDelta | None:
        """Take the next token and set ``finish_reason``.

        Returns:
            What became certain with it: text, a log probability, or ``None`` if nothing did.
        """
        piece = self._accept(token)
        shown = (logprob,) if logprob is not None and token not in self.eos_ids else ()
        return TextDelta(self.index, piece, shown) if piece or shown else None

    def _accept(self, token: int) -> str:
        self.timing.token()
        self.token_ids.append(token)
        self.budget -= 1
        piece = ""
        if token in self.eos_ids:
            self.finish_reason = FinishReason.END
        else:
            piece = self._stops.push(self._decoder.push(token))
            constraint = self.sampler.constraint
            if constraint is not None:
                constraint.accept(token)
            if self._stops.stopped:
                self.finish_reason = FinishReason.STOP
            elif constraint is not None and constraint.finished:
                self.finish_reason = FinishReason.END
            elif self.budget == 0:
                self.finish_reason = FinishReason.LENGTH
        if self.finish_reason in (FinishReason.END, FinishReason.LENGTH):
            piece += self._stops.push(self._decoder.flush()) + self._stops.flush()
            if self._stops.stopped:
                self.finish_reason = FinishReason.STOP
        self.text += piece
        return piece

    def advance(self) -> None:
        """Count the token just fed to the engine."""
        self.length += 1
        self.position += 1

    def response(self, error: str | None = None) -> Response:
        """The outcome as it stands; ``error`` overrides the finish reason."""
        return Response(
            index=self.index,
            request=self.request,
            text=self.text,
            token_ids=tuple(self.token_ids),
            finish_reason=FinishReason.ERROR
            if error
            else (self.finish_reason or FinishReason.CANCELLED),
            prompt_text=self.prompt.text,
            prompt_tokens=self.prompt_tokens,
            media_count=len({span.media for span in self.prompt.spans}),
            report=self.report,
            placements=self.prompt.placements,
            notes=self.prompt.notes,
            timing=self.timing,
            error=error,
        )
