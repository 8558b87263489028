"""Qwen3-VL's choice of the size an image is resized to, before it is cut into patches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..core import RequestError

MAX_ASPECT_RATIO = 200


@dataclass(frozen=True)
class FittedSize:
    """A size in pixels, both sides multiples of the factor.

    ``clamped`` says that the engine's limit made it smaller than the model's own rule, which would
    have taken ``wanted_tokens``.
    """

    height: int
    width: int
    clamped: bool
    wanted_tokens: int


def smart_resize(
    height: int,
    width: int,
    *,
    factor: int,
    min_pixels: int,
    max_pixels: int,
    frames: int = 1,
    counted_frames: int = 1,
) -> tuple[int, int]:
    """Height and width in multiples of ``factor``, with the aspect ratio nearly kept.

    Sides are rounded half to even; then, if ``counted_frames`` frames of that size leave
    ``min_pixels..max_pixels``, ``frames`` frames of the *original* size are scaled to the bound,
    rounding towards the inside. This is the rule of Hugging Face's Qwen image processor, and with
    frame counts that of its Qwen3-VL video processor.

    Raises:
        RequestError: one side is more than 200 times the other.
    """
    ratio = max(height, width) / min(height, width)
    if ratio > MAX_ASPECT_RATIO:
        raise RequestError(
            f"{width}x{height} has an aspect ratio of {ratio:.4g}; at most {MAX_ASPECT_RATIO} is "
            "accepted; crop it or pad it"
        )
    rows, columns = round(height / factor), round(width / factor)
    pixels = counted_frames * rows * columns * factor**2
    if pixels > max_pixels:
        shrink = math.sqrt(frames * height * width / max_pixels)
        rows = max(1, math.floor(height / shrink / factor))
        columns = max(1, math.floor(width / shrink / factor))
    elif pixels < min_pixels:
        grow = math.sqrt(min_pixels / (frames * height * width))
        rows, columns = math.ceil(height * grow / factor), math.ceil(width * grow / factor)
    return rows * factor, columns * factor


def fit_image(
    height: int,
    width: int,
    *,
    factor: int,
    min_pixels: int,
    max_pixels: int,
    max_tokens: int | None = None,
) -> FittedSize:
    """The size of one image: the model's rule, then the engine's limit of ``max_tokens``.

    Raises:
        RequestError: see :func:`smart_resize`.
    """
    size = smart_resize(height, width, factor=factor, min_pixels=min_pixels, max_pixels=max_pixels)
    return clamp_size(size, factor=factor, original=(height, width), max_tokens=max_tokens)


def keep_image(height: int, width: int, *, factor: int, max_tokens: int | None) -> FittedSize:
    """The size of an image that must not be resized.

    Raises:
        RequestError: a side is no multiple of ``factor``, or the engine cannot take that many
            tokens.
    """
    if height % factor or width % factor:
        raise RequestError(
            f"{width}x{height} cannot go in unresized: both sides must be multiples of {factor}; "
            "leave do_resize true"
        )
    tokens = height * width // factor**2
    if max_tokens is not None and tokens > max_tokens:
        raise RequestError(
            f"{width}x{height} is {tokens} visual tokens, the engine takes at most {max_tokens}; "
            "leave do_resize true"
        )
    return FittedSize(height, width, clamped=False, wanted_tokens=tokens)


def shrink_size(size: FittedSize, tokens: int, *, factor: int) -> FittedSize:
    """The size of about ``tokens`` visual tokens that comes closest to the shape of ``size``.

    For both roundings of the shorter side, the longer one is what then hits ``tokens`` best.
    ``tokens`` is 1 or more, and at most what ``size`` has; no side grows. The model's own lower
    bound does not apply.
    """
    rows, columns = size.height // factor, size.width // factor
    shorter, longer = sorted((rows, columns))
    exact = shorter * math.sqrt(tokens / (rows * columns))
    fitting = [
        (short, min(longer, round(tokens / short)))
        for short in (max(1, math.floor(exact)), math.ceil(exact))
    ]

    def distortion(sides: tuple[int, int]) -> float:
        return abs(math.log(sides[0] * longer / (sides[1] * shorter)))

    short, long = min(fitting, key=distortion)
    height, width = (short, long) if rows <= columns else (long, short)
    return replace(size, height=height * factor, width=width * factor)


def clamp_size(
    size: tuple[int, int], *, factor: int, original: tuple[int, int], max_tokens: int | None
) -> FittedSize:
    """Reduce ``size`` to ``max_tokens`` visual tokens, one token being ``factor`` pixels square.

    The original is scaled to that area and its sides are rounded down, which is what the model's
    rule does at its own upper bound.
    """
    wanted = size[0] * size[1] // factor**2
    if max_tokens is None or wanted <= max_tokens:
        return FittedSize(*size, clamped=False, wanted_tokens=wanted)
    scale = math.sqrt(original[0] * original[1] / (max_tokens * factor**2))
    # A side below one token becomes one token; the other must then be held to the limit.
    height, width = (
        min(max(1, math.floor(side / scale / factor)), max_tokens) * factor for side in original
    )
    return FittedSize(height, width, clamped=True, wanted_tokens=wanted)
