"""Where an image may come from, and how messages name it without showing its content."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
from PIL import Image
from torch import Tensor

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
ImageSource: TypeAlias = str | os.PathLike[str] | bytes | Image.Image | Array | Tensor
"""A path, a base64 ``data:`` URI, an encoded file's bytes, a Pillow image, or uint8 ``[H,W,C]``."""

SOURCE_TYPES = (str, os.PathLike, bytes, Image.Image, np.ndarray, Tensor)


def is_data_uri(text: str) -> bool:
    """Whether a string is a ``data:`` URI rather than a path."""
    return text[:5].lower() == "data:"


def describe_source(source: ImageSource) -> str:
    """A short name for messages. Content is never echoed: a ``data:`` URI is its length."""
    if isinstance(source, bytes):
        return f"<{len(source)} bytes>"
    if isinstance(source, Image.Image):
        return f"<{source.width}x{source.height} {source.mode} image>"
    if isinstance(source, np.ndarray | Tensor):
        return f"<array of shape {list(source.shape)}>"
    name = os.fspath(source)
    if is_data_uri(name):
        return f"<data: URI of {len(name)} characters>"
    return shorten(name if name.isprintable() else repr(name))


def shorten(text: str, limit: int = 120) -> str:
    """``text``, or its beginning and its length."""
    return text if len(text) <= limit else f"{text[: limit // 2]}... ({len(text)} characters)"
