"""Fixed prompts on which an engine is compared with the reference: text, and a drawn image."""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image, ImageDraw

from ..core import EngineLimits
from .request import ChatRequest, ImagePart, Message, TextPart

_TEXT = "Count from one to ten, then name the colours of the rainbow."
_QUESTION = "What is in the picture, and where?"
_SIDES = (512, 384, 256)  # pixels, largest first
_PIXELS = 32  # a visual token is this many pixels wide and high
_TEXT_TOKENS = 64  # more than the text around the image takes


def golden_requests(limits: EngineLimits) -> Iterator[ChatRequest]:
    """The prompts that fit ``limits``, the one with most to go wrong first."""
    room = min(limits.max_image_tokens, limits.max_input_len - _TEXT_TOKENS)
    side = next((s for s in _SIDES if (s // _PIXELS) ** 2 <= room), None)
    if side is not None:
        parts = (ImagePart(_picture(side)), TextPart(_QUESTION))
        yield ChatRequest((Message("user", parts),))
    yield ChatRequest((Message("user", _TEXT),))


def _picture(side: int) -> Image.Image:
    """Shapes in full colours on a gradient: large flat areas and sharp edges."""
    gradient = Image.linear_gradient("L").resize((side, side))
    picture = Image.merge("RGB", (gradient, gradient.rotate(90), gradient.rotate(180)))
    draw = ImageDraw.Draw(picture)
    unit = side // 8
    draw.rectangle((unit, unit, 3 * unit, 3 * unit), fill=(255, 0, 0))
    draw.ellipse((5 * unit, unit, 7 * unit, 3 * unit), fill=(0, 0, 255))
    draw.polygon(((2 * unit, 5 * unit), (unit, 7 * unit), (3 * unit, 7 * unit)), fill=(255, 255, 0))
    draw.line((5 * unit, 5 * unit, 7 * unit, 7 * unit), fill=(0, 0, 0), width=unit // 4)
    return picture
