"""What comes back for a request: text, or one line saying why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ..pruners import PruneReport
from .logprobs import TokenLogprob
from .prompt import VisualPlacement
from .request import ChatRequest
from .timing import RequestTiming


class FinishReason(StrEnum):
    """Why generation ended."""

    END = "end-of-sequence"
    LENGTH = "length"
    STOP = "stop-words"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True)
class Response:
    """The outcome of the request submitted as number ``index``.

    ``prompt_tokens`` counts the tokens that were prefilled, after pruning; ``report`` holds both
    counts, and ``placements`` say what the positions it kept show. ``error`` is set exactly when
    ``finish_reason`` is ``ERROR``.
    """

    index: int
    request: ChatRequest | None
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_text: str = ""
    prompt_tokens: int = 0
    media_count: int = 0
    report: PruneReport | None = None
    placements: tuple[VisualPlacement, ...] = ()
    notes: tuple[str, ...] = ()
    timing: RequestTiming = field(default_factory=RequestTiming)
    error: str | None = None


@dataclass(frozen=True)
class TextDelta:
    """A piece of answer ``index`` that became certain; pieces join to the response's text.

    Log probabilities, where the request wants them, come with the step that made the token; the
    text of the token may follow later.
    """

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
