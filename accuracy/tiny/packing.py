"""Scene specifications as bytes: the form in which they travel to the renderer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .lexicon import GLYPHS, SHAPES
from .scenes import MAX_TEXT, Scene

Bytes = npt.NDArray[np.uint8]

# Fields of a scene.
ROWS, COLUMNS, BACKGROUND, NOISE, NOISE_X, NOISE_Y, LINES = range(7)
HEAD_FIELDS = 7

# Fields of a cell. Tiles come first: 0 is "empty", shapes and glyphs follow.
COUNT = MAX_TEXT
COLOUR, PLATE, PLATE_COLOUR, DX, DY, SCALE, ANGLE, SHADE = range(MAX_TEXT + 1, MAX_TEXT + 9)
CELL_FIELDS = MAX_TEXT + 9

FIRST_SHAPE = 1
FIRST_GLYPH = FIRST_SHAPE + len(SHAPES)
NUM_TILES = FIRST_GLYPH + len(GLYPHS)
_GLYPH_TILE = {glyph: FIRST_GLYPH + i for i, glyph in enumerate(GLYPHS)}


def pack_scene(scene: Scene, cells: int) -> tuple[Bytes, Bytes]:
    """Pack one scene.

    Args:
        cells: cell slots of the batch it will join, at least the scene's own.

    Returns:
        ``head [HEAD_FIELDS]`` and ``body [cells, CELL_FIELDS]``, both uint8. Unused slots are zero.
    """
    if len(scene.items) > cells:
        raise ValueError(f"{len(scene.items)} items do not fit {cells} cell slots")
    head = np.array(
        (
            scene.rows,
            scene.columns,
            scene.background,
            scene.noise,
            scene.noise_x,
            scene.noise_y,
            scene.lines,
        ),
        dtype=np.uint8,
    )
    rows = []
    for item in scene.items:
        if item is None:
            rows.append(_EMPTY)
            continue
        tiles = [_GLYPH_TILE[c] for c in item.text] if item.text else [FIRST_SHAPE + item.shape]
        rows.append(
            (
                *tiles,
                *([0] * (MAX_TEXT - len(tiles))),
                len(tiles),
                item.colour,
                item.plate,
                item.plate_colour,
                item.dx,
                item.dy,
                item.scale,
                item.angle,
                item.shade,
            )
        )
    body = np.zeros((cells, CELL_FIELDS), dtype=np.uint8)
    body[: len(rows)] = rows
    return head, body


_EMPTY = (0,) * CELL_FIELDS
