"""Tables of two-digit numbers: the dense task, where nearly every visual token matters."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .lexicon import (
    COLUMN_LETTERS,
    DARK_INK_ID,
    HEADER_IDS,
    LIGHT_BACKGROUND_IDS,
    LIGHT_INK_ID,
)
from .scenes import CELL_PLATE, Item, Scene, scene_noise

SMALLEST = 3


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Largest table body of an image size; the smallest is 3x3."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        if not SMALLEST <= self.rows <= 9 or not SMALLEST <= self.columns <= len(COLUMN_LETTERS):
            raise ValueError(f"a table body is 3x3 to 9x{len(COLUMN_LETTERS)}, not {self}")

    @property
    def cells(self) -> int:
        """Grid cells of the largest table, headers included."""
        return (self.rows + 1) * (self.columns + 1)


def draw_table(rng: random.Random, limits: TableLimits) -> Scene:
    """A random table: a header row of letters, a header column of digits, numbers 10-99."""
    rows, columns = rng.randint(SMALLEST, limits.rows), rng.randint(SMALLEST, limits.columns)
    header = rng.choice(HEADER_IDS)
    scale = rng.randint(110, 255)
    items: list[Item | None] = [None]
    items += [_cell(rng, COLUMN_LETTERS[c], header, scale) for c in range(columns)]
    for row in range(rows):
        items.append(_cell(rng, str(row + 1), header, scale))
        items += [_cell(rng, str(rng.randint(10, 99)), LIGHT_INK_ID, scale) for _ in range(columns)]
    background = rng.choice(LIGHT_BACKGROUND_IDS)
    return Scene(rows + 1, columns + 1, tuple(items), background, **scene_noise(rng))


def _cell(rng: random.Random, text: str, plate_colour: int, scale: int) -> Item:
    return Item(
        colour=DARK_INK_ID,
        text=text,
        plate=CELL_PLATE,
        plate_colour=plate_colour,
        dx=rng.randint(88, 168),
        dy=rng.randint(88, 168),
        scale=scale,
        shade=rng.randrange(256),
    )
