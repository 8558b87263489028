"""A mix of requests for load tests: text and images, streamed or not, some left, some wrong."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CANCELLED = 0.10
MALFORMED = 0.05
LONG = 0.3
_TEXTS = ("the shape is a", "row 2 column 3", "which image has a red circle", "one two three")
_WRONG: tuple[dict[str, Any], ...] = (
    {"temperature": -1},
    {"messages": [{"role": "nobody", "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "/etc/x"}]}]},
    {"visual_pruning": {"algorithm": "none such"}},
    {"stop": 5},
)


# The bundled model answers in two or three tokens; this makes it go on for forty or so.
_LONG_ANSWER = {
    "type": "json_schema",
    "json_schema": {
        "name": "note",
        "schema": {
            "type": "object",
            "properties": {"note": {"type": "string", "minLength": 30, "maxLength": 60}},
            "required": ["note"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True)
class Planned:
    """One request.

    Args:
        body: what is sent.
        key: which of the distinct questions it is; ``None`` for a wrong one.
        cancel_after: pieces of the answer after which the client leaves; ``None``: it stays.
    """

    body: dict[str, Any]
    key: int | None
    cancel_after: int | None = None


def distinct_bodies(
    requests: Path, count: int, seed: int, *, most_images: int = 4, long_share: float = LONG
) -> list[dict[str, Any]]:
    """``count`` greedy requests of no image (a quarter) or some, drawn from a file's."""
    draw = random.Random(seed)
    document = json.loads(requests.read_text(encoding="utf-8"))
    parts = [p for r in document["requests"] for m in r["messages"] for p in m["content"]]
    questions = [part["text"] for part in parts if part["type"] == "text"]
    files = sorted({part["image"] for part in parts if part["type"] == "image"})
    images = [_uri((requests.parent / file).read_bytes()) for file in files]
    bodies = []
    for index in range(count):
        texts_only = index % 4 == 0 or most_images == 0
        shown = [] if texts_only else draw.choices(images, k=draw.randint(1, most_images))
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": image}} for image in shown
        ]
        text = draw.choice(questions if shown else _TEXTS)
        content.insert(draw.randint(0, len(content)), {"type": "text", "text": text})
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_completion_tokens": draw.randint(8, 48),
        }
        if draw.random() < long_share:
            body |= {"response_format": _LONG_ANSWER, "max_completion_tokens": 96}
        if shown and draw.random() < 0.5:
            body["visual_pruning"] = {"algorithm": "dart", "reduction_ratio": 0.5}
        bodies.append(body)
    return bodies


def plan(bodies: list[dict[str, Any]], count: int, seed: int) -> Iterator[Planned]:
    """``count`` requests of one client."""
    draw = random.Random(seed)
    for _ in range(count):
        key = draw.randrange(len(bodies))
        body = {**bodies[key], "stream": draw.random() < 0.5}
        fate = draw.random()
        if fate < MALFORMED:
            yield Planned({**body, **draw.choice(_WRONG)}, None)
        elif fate < MALFORMED + CANCELLED:
            yield Planned(body, key, cancel_after=draw.randint(0, 4))
        else:
            yield Planned(body, key)


def _uri(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")
