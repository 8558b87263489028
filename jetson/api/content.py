"""Messages: text, images and video frames, in the order they were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...runtime import ImagePart, Message, TextPart, VideoPart
from ...runtime.json_cursor import JsonCursor
from ...runtime.request import Part

_ROLES = {"developer": "system"}  # Qwen's templates know no developer
_MESSAGE_FIELDS = {"role", "content", "tool_calls", "tool_call_id"}
_PART_FIELDS = {
    "text": {"type", "text"},
    "image_url": {"type", "image_url"},
    "video": {"type", "frames", "fps"},
}
DEFAULT_FPS = 2.0


def media_urls(root: JsonCursor) -> dict[str, str]:
    """Every image and video frame of a chat request: its URL, by the place it stands at.

    Raises:
        RequestError: something is not where it belongs, or of the wrong type.
    """
    nodes = []
    for message in root["messages"].items():
        if "content" not in message or isinstance(message["content"].value, str):
            continue
        for part in message["content"].items():
            kind = part["type"].string()
            if kind == "image_url":
                nodes.append(_url(part["image_url"]))
            elif kind == "video":
                nodes += [_url(frame) for frame in part["frames"].items()]
    return {node.where: node.string() for node in nodes}


def read_messages(root: JsonCursor, images: Mapping[str, bytes]) -> list[Message]:
    """The conversation.

    Args:
        images: encoded images by their place, one for each of :func:`media_urls`.

    Raises:
        RequestError: naming the place.
    """
    return [_message(node, images) for node in root["messages"].items()]


def unknown_in_messages(root: JsonCursor) -> tuple[str, ...]:
    """Kinds of fields in messages and parts that mean nothing here, each named once."""
    found: dict[str, None] = {}
    for message in root["messages"].value:
        for name in message:
            if name not in _MESSAGE_FIELDS:
                found[f"messages[].{name}"] = None
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            for name in part:
                if name not in _PART_FIELDS.get(part["type"], {"type"}):
                    found[f"messages[].content[].{name}"] = None
            image = part.get("image_url")
            for name in image if isinstance(image, dict) else ():
                if name != "url":
                    found[f"messages[].content[].image_url.{name}"] = None
    return tuple(found)


def _message(node: JsonCursor, images: Mapping[str, bytes]) -> Message:
    role = node["role"].string()
    calls = [_call(call) for call in node["tool_calls"].items()] if "tool_calls" in node else []
    with node["role"].placed():
        plain = Message(_ROLES.get(role, role), "")  # checks the role
    with node.placed():
        return Message(plain.role, _content(node, images, bool(calls)), calls)


def _content(node: JsonCursor, images: Mapping[str, bytes], optional: bool) -> str | list[Part]:
    if "content" not in node and optional:  # an assistant that only calls tools
        return ""
    content = node["content"]
    if isinstance(content.value, list):
        return [_part(entry, images) for entry in content.items()]
    if isinstance(content.value, str):
        return content.value
    raise content.error("must be a string or a list of parts")


def _part(node: JsonCursor, images: Mapping[str, bytes]) -> Part:
    kind = node["type"].string()
    with node.placed():
        if kind == "text":
            return TextPart(node["text"].string())
        if kind == "image_url":
            return ImagePart(images[_url(node["image_url"]).where])
        if kind == "video":
            frames = [images[_url(frame).where] for frame in node["frames"].items()]
            fps = node["fps"].number() if "fps" in node else DEFAULT_FPS
            return VideoPart(frames, fps)
    if kind == "video_url":
        raise node["type"].error('video files are not decoded; send "video" with its frames')
    raise node["type"].error(f"must be text, image_url or video, found {kind[:40]!r}")


def _url(node: JsonCursor) -> JsonCursor:
    """The node that holds the URL: OpenAI writes an object, many clients the string itself."""
    return node["url"] if isinstance(node.value, dict) else node


def _call(node: JsonCursor) -> dict[str, Any]:
    """An earlier tool call, as chat templates want it: arguments as an object."""
    function = node["function"]
    arguments = function["arguments"]
    try:
        parsed = json.loads(arguments.string())
    except (ValueError, RecursionError):
        raise arguments.error("must be a string that holds JSON") from None
    if not isinstance(parsed, dict):
        raise arguments.error("must hold a JSON object")
    return {"name": function["name"].string(), "arguments": parsed}
