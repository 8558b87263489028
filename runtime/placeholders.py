"""Text with placeholders: kept apart from what users wrote, checked, and expanded to spans."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ..core import RequestError, VisualSpan
from .prompt import MediaMarkers, VisualItem
from .request import ChatRequest, ImagePart, MediaPart, TextPart
from .tokenizer import Tokenizer
from .video import timestamp_text


def refuse_control_tokens(request: ChatRequest, tokenizer: Tokenizer) -> None:
    """Make sure that text stays text: none of it may act as a control token.

    Neighbouring text parts are looked at together, since they are rendered together. Tools and
    their calls are text too.

    Raises:
        RequestError: naming the token and the message.
    """
    media_only = not request.apply_chat_template

    def check(where: str, text: str) -> None:
        token = tokenizer.find_control_token(text, media_only=media_only)
        if token is not None:
            raise RequestError(
                f"{where}: the text contains the control token {token!r}, which "
                "would change the structure of the prompt; remove it or break it up"
            )

    if request.tools:
        check("tools", json.dumps([dict(tool) for tool in request.tools], ensure_ascii=False))
    for index, message in enumerate(request.messages):
        runs = [""]
        for part in message.parts:
            if isinstance(part, TextPart):
                runs[-1] += part.text
            else:
                runs.append("")
        runs += [json.dumps(dict(call), ensure_ascii=False) for call in message.tool_calls]
        for run in runs:
            check(f"messages[{index}]", run)


def join_parts(request: ChatRequest, markers: MediaMarkers) -> str:
    """The prompt of a request that wants no chat template: its parts, one after the other."""
    texts = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, TextPart):
                texts.append(part.text)
            else:
                pad = markers.image if isinstance(part, ImagePart) else markers.video
                texts.append(f"{markers.start}{pad}{markers.end}")
    return "".join(texts)


def place_media(
    text: str, media: Sequence[MediaPart], items: Sequence[VisualItem], markers: MediaMarkers
) -> str:
    """Check that the placeholders in ``text`` are the request's media, in order; spread videos.

    Each frame group of a video gets its time stamp and a placeholder of its own.

    Raises:
        RequestError: the chat template left media out, doubled them or changed their order.
    """
    start, end, image, video = map(
        re.escape, (markers.start, markers.end, markers.image, markers.video)
    )
    wanted = [markers.image if isinstance(part, ImagePart) else markers.video for part in media]
    found = re.findall(f"{image}|{video}", text)
    if found != wanted:
        raise RequestError(
            f"the chat template placed {len(found)} media ({_kinds(found, markers)}), the request "
            f"has {len(wanted)} ({_kinds(wanted, markers)}); is one in a system message?"
        )
    videos = (index for index, token in enumerate(found) if token == markers.video)

    def spread(_: re.Match[str]) -> str:
        index = next(videos)
        return "".join(
            f"{timestamp_text(item.seconds or 0.0)}{markers.start}{markers.video}{markers.end}"
            for item in items
            if item.media == index
        )

    return re.sub(f"{start}{video}{end}|{video}", spread, text)


def expand_placeholders(
    ids: Sequence[int], items: Sequence[VisualItem], pads: tuple[int, int], merge_unit: int
) -> tuple[list[int], tuple[VisualSpan, ...]]:
    """Repeat each placeholder id once per visual token of its item.

    Raises:
        RequestError: there are not as many placeholders as items.
    """
    count = sum(token in pads for token in ids)
    if count != len(items):
        raise RequestError(f"the prompt has {count} placeholders for {len(items)} visual items")
    expanded: list[int] = []
    spans = []
    remaining = iter(items)
    for token in ids:
        if token not in pads:
            expanded.append(token)
            continue
        item = next(remaining)
        begin = len(expanded)
        expanded.extend([token] * (len(item.patches) // merge_unit))
        spans.append(VisualSpan(begin, len(expanded), item.media))
    return expanded, tuple(spans)


def _kinds(tokens: Sequence[str], markers: MediaMarkers) -> str:
    names = {markers.image: "image", markers.video: "video"}
    return ", ".join(names[token] for token in tokens) or "none"
