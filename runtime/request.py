"""What a caller asks for: messages with media, how to sample, and options of one request.

Everything is checked when it is constructed and never changes afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..core import RequestError
from .constraint import MakeConstraint
from .source import SOURCE_TYPES, ImageSource, describe_source, shorten

ROLES = ("system", "user", "assistant", "tool")
MAX_MESSAGES = 64
MAX_PARTS = 1024
MAX_TEXT_BYTES = 128 * 1024
MAX_LOGPROBS = 20


@dataclass(frozen=True)
class TextPart:
    """Plain text. Control tokens in it are refused later, where the tokenizer is known."""

    text: str

    def __post_init__(self) -> None:
        _check_text(self.text)

    def to_json(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True)
class ImagePart:
    """One image. With ``do_resize=False`` its size must already suit the model."""

    source: ImageSource
    do_resize: bool = True

    def __post_init__(self) -> None:
        _check_source(self.source, "an image")
        value = self.do_resize
        _require(isinstance(value, bool), "do_resize must be true or false", value)

    def to_json(self) -> dict[str, Any]:
        return {"type": "image", "image": describe_source(self.source)}


@dataclass(frozen=True)
class VideoPart:
    """Frames that are already sampled, in order, and the rate they were sampled at.

    ``fps`` only decides the time stamps the model reads: frame ``i`` is at ``i / fps`` seconds.
    """

    frames: Sequence[ImageSource]
    fps: float

    def __post_init__(self) -> None:
        _require(
            isinstance(self.frames, Sequence) and not isinstance(self.frames, str | bytes),
            "a video's frames must be a list of images",
            self.frames,
        )
        object.__setattr__(self, "frames", tuple(self.frames))
        _require(len(self.frames) > 0, "a video needs at least one frame", self.frames)
        for index, frame in enumerate(self.frames):
            _check_source(frame, f"frame {index}")
        _require(_is_finite(self.fps) and self.fps > 0, "fps must be above 0", self.fps)

    def to_json(self) -> dict[str, Any]:
        frames = [describe_source(frame) for frame in self.frames]
        return {"type": "video", "frames": frames, "fps": self.fps}


Part: TypeAlias = TextPart | ImagePart | VideoPart
MediaPart: TypeAlias = ImagePart | VideoPart


@dataclass(frozen=True)
class Message:
    """One turn. ``content`` stays a string where it was given as one: templates can tell.

    ``tool_calls`` are the calls an assistant's turn made, plain data for the chat template, each
    ``{"name": ..., "arguments": {...}}``.
    """

    role: str
    content: str | Sequence[Part]
    tool_calls: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        known = ", ".join(ROLES)
        _require(self.role in ROLES, f"a message's role must be one of {known}", self.role)
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        if isinstance(self.content, str):
            _check_text(self.content)
            return
        _require(
            isinstance(self.content, Sequence) and not isinstance(self.content, bytes),
            "a message's content must be a string or a list of parts",
            self.content,
        )
        object.__setattr__(self, "content", tuple(self.content))
        count = len(self.content)
        _require(1 <= count <= MAX_PARTS, f"a message needs 1 to {MAX_PARTS} parts", count)
        for part in self.content:
            kinds = "a TextPart, an ImagePart or a VideoPart"
            _require(isinstance(part, Part), f"a content part must be {kinds}", part)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, whichever way it was given."""
        if isinstance(self.content, str):
            return (TextPart(self.content),)
        return tuple(self.content)

    def to_json(self) -> dict[str, Any]:
        """The message as response files show it; media by name, never their content."""
        return {"role": self.role, "content": [part.to_json() for part in self.parts]}


@dataclass(frozen=True)
class SamplingParams:
    """How to choose tokens. ``top_k=0`` and ``top_p=1`` switch their filters off.

    ``logprobs`` asks for each token's log probability and that many alternatives.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    seed: int | None = None
    logprobs: int | None = None

    def __post_init__(self) -> None:
        value = self.temperature
        _require(_is_finite(value) and value >= 0, "temperature must be a number >= 0", value)
        _require(_is_finite(self.top_p) and 0 <= self.top_p <= 1, "top_p must be 0..1", self.top_p)
        _require(_is_int(self.top_k) and self.top_k >= 0, "top_k must be >= 0 (0: off)", self.top_k)
        count = self.max_tokens
        _require(_is_int(count) and count >= 1, "max_tokens must be an integer >= 1", count)
        if self.seed is not None:
            inside = _is_int(self.seed) and 0 <= self.seed < 2**63
            _require(inside, "the seed must be an integer in 0..2^63-1", self.seed)
        if self.logprobs is not None:
            inside = _is_int(self.logprobs) and 0 <= self.logprobs <= MAX_LOGPROBS
            _require(inside, f"logprobs must be 0..{MAX_LOGPROBS}", self.logprobs)

    @property
    def greedy(self) -> bool:
        """Whether only the most probable token can be chosen."""
        return self.temperature == 0 or self.top_k == 1 or self.top_p == 0


@dataclass(frozen=True)
class ChatRequest:
    """One request: a conversation and everything that shapes its answer.

    Args:
        stop: strings that end the answer when they appear; they are not part of it.
        visual_pruning: this request's own pruner settings, as written; the runtime parses them.
        add_generation_prompt: end the prompt with the opening of the assistant's turn.
        enable_thinking: passed to the chat template where given; most templates do not look.
        apply_chat_template: ``False`` joins the parts as they are, with no roles; then text may
            hold control tokens, except the ones that mark media.
        tools: descriptions of functions the model may call, plain data for the chat template.
        constraint: makes what the answer must follow, such as a grammar.

    Raises:
        RequestError: a value is outside its range; the message says which, and the range.
    """

    messages: Sequence[Message]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: Sequence[str] = ()
    visual_pruning: Mapping[str, Any] | None = None
    id: str = ""
    add_generation_prompt: bool = True
    enable_thinking: bool | None = None
    apply_chat_template: bool = True
    tools: Sequence[Mapping[str, Any]] = ()
    constraint: MakeConstraint | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        _require(
            isinstance(self.messages, Sequence)
            and all(isinstance(message, Message) for message in self.messages),
            "messages must be a list of Message objects",
            self.messages,
        )
        object.__setattr__(self, "messages", tuple(self.messages))
        count = len(self.messages)
        _require(1 <= count <= MAX_MESSAGES, f"a request needs 1 to {MAX_MESSAGES} messages", count)
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        valid = all(isinstance(entry, str) and entry for entry in stop)
        _require(valid, "stop must be a string or a list of strings, none empty", stop)
        settings = self.visual_pruning
        _require(
            settings is None or isinstance(settings, Mapping),
            "visual_pruning must be an object of pruner settings",
            settings,
        )

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Images and videos in the order the conversation shows them."""
        parts = (part for message in self.messages for part in message.parts)
        return tuple(part for part in parts if not isinstance(part, TextPart))


def _check_text(text: object) -> None:
    _require(isinstance(text, str), "text must be a string", text)
    assert isinstance(text, str)
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise RequestError(
            f"text holds an unpaired surrogate at character {error.start}; it is not valid Unicode"
        ) from None
    if size > MAX_TEXT_BYTES:
        raise RequestError(f"a text has {size} bytes; at most {MAX_TEXT_BYTES} are accepted")


def _check_source(source: object, what: str) -> None:
    forms = "a path, a data: URI, bytes, a Pillow image or a uint8 [H,W,C] array or tensor"
    _require(isinstance(source, SOURCE_TYPES), f"{what} must be {forms}", type(source).__name__)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(condition: bool, rule: str, found: object) -> None:
    if not condition:
        raise RequestError(f"{rule}, got {shorten(repr(found), 80)}")
