"""The words and colours the tiny world is made of."""

from __future__ import annotations

SHAPES = ("circle", "square", "triangle", "diamond", "star", "cross")
PLURALS = ("circles", "squares", "triangles", "diamonds", "stars", "crosses")

Rgb = tuple[int, int, int]

COLOURS: dict[str, Rgb] = {
    "red": (222, 48, 46),
    "orange": (244, 138, 28),
    "yellow": (250, 214, 46),
    "green": (58, 166, 78),
    "blue": (46, 104, 222),
    "purple": (138, 72, 190),
    "pink": (246, 128, 182),
    "cyan": (44, 192, 204),
}
COLOUR_NAMES = tuple(COLOURS)

LIGHT_BACKGROUNDS: tuple[Rgb, ...] = (
    (250, 250, 248),
    (234, 238, 243),
    (252, 245, 230),
    (228, 240, 250),
    (230, 245, 235),
    (241, 233, 247),
)
DARK_BACKGROUNDS: tuple[Rgb, ...] = ((38, 42, 54), (54, 60, 66), (24, 34, 58))

DARK_INK: Rgb = (30, 34, 42)
LIGHT_INK: Rgb = (248, 248, 246)
HEADERS: tuple[Rgb, ...] = ((188, 206, 232), (200, 222, 204), (224, 210, 186), (212, 204, 228))

# Every colour a scene can name, by index. The renderer gathers from this one table.
PALETTE: tuple[Rgb, ...] = (
    *COLOURS.values(),
    DARK_INK,
    LIGHT_INK,
    *LIGHT_BACKGROUNDS,
    *DARK_BACKGROUNDS,
    *HEADERS,
)
DARK_INK_ID = len(COLOURS)
LIGHT_INK_ID = DARK_INK_ID + 1
LIGHT_BACKGROUND_IDS = tuple(range(LIGHT_INK_ID + 1, LIGHT_INK_ID + 1 + len(LIGHT_BACKGROUNDS)))
DARK_BACKGROUND_IDS = tuple(
    range(LIGHT_BACKGROUND_IDS[-1] + 1, LIGHT_BACKGROUND_IDS[-1] + 1 + len(DARK_BACKGROUNDS))
)
HEADER_IDS = tuple(range(DARK_BACKGROUND_IDS[-1] + 1, len(PALETTE)))

# Cells of the 3x3 grid, row by row.
POSITIONS = (
    "top left",
    "top centre",
    "top right",
    "middle left",
    "centre",
    "middle right",
    "bottom left",
    "bottom centre",
    "bottom right",
)

# Labels avoid look-alikes: O/0/Q, I/1, S/5, Z/2, B/8.
LABEL_CHARACTERS = "ABCDEFGHJKLMNPRSTUVWXY234679"
DIGITS = "0123456789"
COLUMN_LETTERS = "ABCDEFGH"
GLYPHS = "".join(sorted(set(LABEL_CHARACTERS + DIGITS + COLUMN_LETTERS)))


def with_article(noun: str) -> str:
    """``"red circle"`` -> ``"a red circle"``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
