"""One sample of a data set: what to ask, and what a right answer is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from ...core import RequestError
from ...runtime import ImagePart, Message, TextPart
from ...runtime.json_cursor import JsonCursor
from ...runtime.request import Part
from ...runtime.source import is_data_uri
from ..scoring import SCORINGS

MAX_TOKENS = 32


@dataclass(frozen=True)
class Sample:
    """A question about images.

    Args:
        id: unique in its data set.
        task: what the reports group by; ``subtask`` groups within it.
        messages: the conversation that asks, images where they belong.
        answers: any of them is right. For the scoring ``choice`` they are letters.
        scoring: a name of :data:`~edgevlm.accuracy.scoring.SCORINGS`.
        choices: the texts of a multiple choice, ``A`` first, where they are known.
        max_tokens: how long an answer may get.

    Raises:
        RequestError: a value is of no use; the message says which and what is legal.
    """

    id: str
    task: str
    messages: tuple[Message, ...]
    answers: tuple[str, ...]
    scoring: str
    choices: tuple[str, ...] = ()
    subtask: str = ""
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        _require(bool(self.id), "id is empty; give every sample one of its own")
        known = ", ".join(SCORINGS.names())
        _require(self.scoring in SCORINGS, f"scoring {self.scoring!r} is unknown; known: {known}")
        _require(bool(self.answers), "answers is empty; give at least one right answer")
        _require(self.max_tokens >= 1, f"max_tokens must be at least 1, found {self.max_tokens}")
        if self.scoring == "choice":
            letters = ascii_uppercase[: len(self.choices) or None]
            for answer in self.answers:
                _require(
                    len(answer) == 1 and answer in letters,
                    f"the answer {answer!r} is not one of the letters A to {letters[-1]}",
                )

    @classmethod
    def from_json(cls, node: JsonCursor, folder: Path) -> Sample:
        """Read one line of a data set.

        Args:
            folder: where the paths of its images start.

        Raises:
            RequestError: a key is missing or of the wrong kind, or an image is not there.
        """
        messages = [Message("system", node["system"].string())] if "system" in node else []
        parts = [_part(entry, folder) for entry in node["content"].items()]
        with node["content"].placed():
            messages.append(Message("user", parts))
        return cls(
            id=node["id"].string(),
            task=node["task"].string(),
            messages=tuple(messages),
            answers=_strings(node, "answers"),
            scoring=node["scoring"].string(),
            choices=_strings(node, "choices") if "choices" in node else (),
            subtask=node["subtask"].string() if "subtask" in node else "",
            max_tokens=node["max_tokens"].integer() if "max_tokens" in node else MAX_TOKENS,
        )

    @property
    def images(self) -> Iterator[Any]:
        """The sources of its images, in order."""
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, ImagePart):
                    yield part.source


def _part(node: JsonCursor, folder: Path) -> Part:
    kind = node["type"].string()
    if kind == "text":
        return TextPart(node["text"].string())
    if kind != "image":
        raise node["type"].error(f"must be text or image, found {kind!r}")
    source = node["image"].string()
    if is_data_uri(source):
        return ImagePart(source)
    path = folder / source
    if not path.is_file():
        raise node["image"].error(f"there is no file {source} beside the data set; restore it")
    return ImagePart(path)


def _strings(node: JsonCursor, key: str) -> tuple[str, ...]:
    return tuple(entry.string() for entry in node[key].items())


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RequestError(message)


def to_json(
    sample_id: str,
    task: str,
    content: Sequence[dict[str, str]],
    answers: Sequence[str],
    scoring: str,
    *,
    subtask: str = "",
    choices: Sequence[str] = (),
    max_tokens: int = MAX_TOKENS,
) -> dict[str, Any]:
    """The line that :meth:`Sample.from_json` reads."""
    return {
        "id": sample_id,
        "task": task,
        "subtask": subtask,
        "content": list(content),
        "answers": list(answers),
        "scoring": scoring,
        "choices": list(choices),
        "max_tokens": max_tokens,
    }
