"""The sprite atlas: signed distance fields of every shape and glyph, made once."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from .lexicon import GLYPHS, SHAPES
from .packing import FIRST_GLYPH, FIRST_SHAPE, NUM_TILES

TILE = 64
# Width over height of a glyph's tile; a shape's tile is square.
GLYPH_ASPECT = 0.68

_SUPERSAMPLING = 4
_CAP_HEIGHT = 0.72
_GLYPH_WIDTH = 0.86
_STROKE = 0.012

Distances = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@functools.cache
def sprite_atlas() -> Distances:
    """Signed distances ``[NUM_TILES, TILE, TILE]`` fp32, in tile heights, negative inside.

    Glyph tiles are ``GLYPH_ASPECT`` as wide as they are high but have as many columns as rows.
    """
    atlas = np.ones((NUM_TILES, TILE, TILE), dtype=np.float32)
    for index, shape in enumerate(SHAPES):
        atlas[FIRST_SHAPE + index] = _distances(_shape_mask(shape), 1.0)
    for index, glyph in enumerate(GLYPHS):
        atlas[FIRST_GLYPH + index] = _distances(_glyph_mask(glyph), GLYPH_ASPECT) - _STROKE
    return atlas


def _distances(mask: Mask, aspect: float) -> Distances:
    """Distances from the centres of a ``TILE x TILE`` grid to the edge of ``mask [h,w]``."""
    height, width = mask.shape
    inside = np.pad(mask, 1)
    eroded = inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
    rows, columns = np.nonzero(mask & ~eroded)
    edge = np.stack(((rows + 0.5) / height, (columns + 0.5) / width * aspect), axis=1)
    centres = (np.arange(TILE) + 0.5) / TILE
    result = np.empty((TILE, TILE), dtype=np.float32)
    for row, y in enumerate(centres):
        # [TILE,edge points]
        squared = (y - edge[:, 0]) ** 2 + (centres[:, None] * aspect - edge[:, 1]) ** 2
        result[row] = np.sqrt(squared.min(axis=1))
    ys = (centres * height).astype(int)
    xs = (centres * width).astype(int)
    # The edge runs through the middle of the outermost pixels, half a pixel inside the outline.
    return np.where(mask[np.ix_(ys, xs)], -result, result) - np.float32(0.5 / height)


def _shape_mask(name: str) -> Mask:
    size = TILE * _SUPERSAMPLING
    image = Image.new("1", (size, size))
    draw = ImageDraw.Draw(image)
    points = [(size * (0.5 + x / 2), size * (0.5 + y / 2)) for x, y in _outline(name)]
    draw.polygon(points, fill=1)
    return np.asarray(image, dtype=bool)


def _outline(name: str) -> list[tuple[float, float]]:
    """Corner points in ``[-1,1]`` with y pointing down."""
    if name == "circle":
        return _ring([0.86] * 96)
    if name == "square":
        return [(-0.74, -0.74), (0.74, -0.74), (0.74, 0.74), (-0.74, 0.74)]
    if name == "triangle":
        return [(0.0, -0.86), (0.90, 0.74), (-0.90, 0.74)]
    if name == "diamond":
        return [(0.0, -0.96), (0.70, 0.0), (0.0, 0.96), (-0.70, 0.0)]
    if name == "star":
        return [(x, y + 0.05) for x, y in _ring([0.96, 0.40] * 5)]
    if name == "cross":
        a, b = 0.88, 0.30
        return [
            (-b, -a), (b, -a), (b, -b), (a, -b), (a, b), (b, b),
            (b, a), (-b, a), (-b, b), (-a, b), (-a, -b), (-b, -b),
        ]  # fmt: skip
    raise ValueError(f"no outline for shape {name!r}")


def _ring(radii: list[float]) -> list[tuple[float, float]]:
    step = 2 * math.pi / len(radii)
    return [(r * math.sin(i * step), -r * math.cos(i * step)) for i, r in enumerate(radii)]


def _glyph_mask(glyph: str) -> Mask:
    height = TILE * _SUPERSAMPLING
    width = round(height * GLYPH_ASPECT)
    font = ImageFont.load_default(size=height)
    top, bottom = font.getbbox("H")[1], font.getbbox("H")[3]
    left, _, right, _ = font.getbbox(glyph)
    source = Image.new("L", (math.ceil(right - left) + 8, 2 * height))
    ImageDraw.Draw(source).text((4 - left, 0), glyph, fill=255, font=font)
    box = source.getbbox()
    if box is None:
        raise ValueError(f"the font draws nothing for {glyph!r}")
    # Every glyph stands on one baseline with one cap height; wide ones are condensed to the tile.
    scale = _CAP_HEIGHT * height / (bottom - top)
    glyph_width = min(round((box[2] - box[0]) * scale), round(width * _GLYPH_WIDTH))
    glyph_height = round((box[3] - box[1]) * scale)
    small = source.crop(box).resize((glyph_width, glyph_height), Image.Resampling.LANCZOS)
    y = round((1 - _CAP_HEIGHT) / 2 * height + (box[1] - top) * scale)
    canvas = Image.new("L", (width, height))
    canvas.paste(small, ((width - glyph_width) // 2, y))
    return np.asarray(canvas) >= 128
