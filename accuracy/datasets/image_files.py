"""Saving the images of a data set as they were published, once they are known to be images."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from ...core import RequestError, UsageError

FOLDER = "images"


def save_image(image: bytes | Path, output: Path, name: str) -> str:
    """Write an encoded image below ``output``; returns its path from there.

    The bytes stay as they are, so nothing is lost by encoding them again.

    Raises:
        RequestError: they are no image that can be decoded.
        UsageError: the file cannot be written.
    """
    try:
        content = image if isinstance(image, bytes) else image.read_bytes()
        with Image.open(io.BytesIO(content)) as opened:
            kind = (opened.format or "img").lower()
            opened.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        what = "an image" if isinstance(image, bytes) else image.name
        raise RequestError(f"{what} cannot be decoded ({error}); fetch it again") from None
    path = f"{FOLDER}/{name}.{kind}"
    try:
        (output / path).write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {output / path}: {error.strerror or error}") from None
    return path
