"""Everything the two processes say to each other, as frozen dataclasses.

``job`` is the number under which the HTTP side knows a request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ...runtime import ChatRequest
from ...runtime.prompt import VisualPlacement

# To the worker.


@dataclass(frozen=True)
class WorkerSettings:
    """The first message: what to open.

    ``opener`` names the function that opens it, ``module:function``.
    """

    llm: str
    visual: str | None
    checkpoint: str | None = None
    device: str | None = None
    slots: int | None = None
    pruning: dict[str, Any] = field(default_factory=dict)
    routing: dict[str, Any] = field(default_factory=dict)
    opener: str = "edgevlm.jetson.worker.opening:open_engine"

    def opened_by(self, opener: str) -> WorkerSettings:
        """The same, opened by another function."""
        return replace(self, opener=opener)


@dataclass(frozen=True)
class Grammar:
    """What an answer must follow: a ``"json_schema"``, or ``"tool_calls"`` (a schema per tool).

    Args:
        schemas: JSON schemas.
        param: the request's field it comes from.
        several: whether more than one call may follow each other.
    """

    kind: str
    schemas: tuple[Any, ...]
    param: str
    several: bool = False


@dataclass(frozen=True)
class Submit:
    """Answer a request."""

    job: int
    request: ChatRequest
    grammar: Grammar | None = None


@dataclass(frozen=True)
class Count:
    """Tokenize a request, without answering it."""

    job: int
    request: ChatRequest


@dataclass(frozen=True)
class Cancel:
    """Stop a request; it ends with :class:`Done`, unless it has ended already."""

    job: int


@dataclass(frozen=True)
class Stop:
    """Leave."""


ToWorker: TypeAlias = Submit | Count | Cancel | Stop

# From the worker.


@dataclass(frozen=True)
class EngineInfo:
    """What was opened."""

    target: str
    dtype: str
    slots: int
    max_input_len: int
    max_kv_len: int
    max_image_tokens: int | None
    pruners: tuple[str, ...]
    sampling: dict[str, float] = field(default_factory=dict)  # the checkpoint's own defaults


@dataclass(frozen=True)
class Opened:
    """The engine answers requests from now on."""

    info: EngineInfo


@dataclass(frozen=True)
class Fatal:
    """It cannot be opened, or it failed beyond one request; the process ends."""

    message: str


@dataclass(frozen=True)
class ShownLogprob:
    """A token as text, with its log probability and the likeliest at its place."""

    token: str
    data: bytes
    logprob: float
    top: tuple[tuple[str, bytes, float], ...]


@dataclass(frozen=True)
class Piece:
    """Text that became certain."""

    job: int
    text: str
    logprobs: tuple[ShownLogprob, ...] = ()


@dataclass(frozen=True)
class Done:
    """A request ended. ``report`` is that of the pruner, ``None`` before it ran."""

    job: int
    finish_reason: str
    completion_tokens: int
    prompt_tokens: int
    report: dict[str, Any] | None
    placements: tuple[VisualPlacement, ...]
    timing: dict[str, float | None]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """A request was not answered because of what it asks (``fault`` false) or of the engine."""

    job: int
    message: str
    param: str | None = None
    fault: bool = False


@dataclass(frozen=True)
class Counted:
    """The token ids of a request's prompt, before pruning."""

    job: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Memory:
    """Bytes of device memory the worker holds, apart from its resident set."""

    device_bytes: int


JobMessage: TypeAlias = Piece | Done | Refused | Counted
FromWorker: TypeAlias = Opened | Fatal | Memory | JobMessage
