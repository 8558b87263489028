"""Scene specifications: what each cell of a grid shows, and how they are drawn at random."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .lexicon import (
    COLOUR_NAMES,
    DARK_BACKGROUND_IDS,
    DARK_INK_ID,
    GLYPHS,
    LABEL_CHARACTERS,
    LIGHT_BACKGROUND_IDS,
    LIGHT_INK_ID,
    PALETTE,
    SHAPES,
)

MAX_TEXT = 4
GRID = 3

# Plate styles: no plate, one hugging the text, one filling the cell (table cells).
NO_PLATE, HUG_PLATE, CELL_PLATE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Item:
    """What one cell shows: a shape (``shape >= 0``) or a text of 1-4 characters.

    Jitter is kept in bytes, so a specification packs into ``uint8`` without loss: ``dx, dy`` move
    inside the free space of the cell (128 = centred), ``scale`` grows, ``angle`` turns
    (128 = upright), ``shade`` brightens or darkens the ink (128 = as named).
    """

    colour: int  # index into PALETTE
    shape: int = -1
    text: str = ""
    plate: int = NO_PLATE
    plate_colour: int = 0
    dx: int = 128
    dy: int = 128
    scale: int = 128
    angle: int = 128
    shade: int = 128

    def __post_init__(self) -> None:
        if (self.shape < 0) == (not self.text):
            raise ValueError("an item is either a shape or a text")
        if self.shape >= len(SHAPES) or len(self.text) > MAX_TEXT:
            raise ValueError(f"no such shape or text: {self.shape}, {self.text!r}")
        if any(c not in GLYPHS for c in self.text):
            raise ValueError(f"text {self.text!r} has characters outside {GLYPHS!r}")
        if not 0 <= self.colour < len(PALETTE):
            raise ValueError(f"colour {self.colour} is outside the palette")

    @property
    def noun(self) -> str:
        """``"red circle"``; shapes only."""
        return f"{COLOUR_NAMES[self.colour]} {SHAPES[self.shape]}"


@dataclass(frozen=True, slots=True)
class Scene:
    """A grid of ``rows x columns`` cells, row by row; ``None`` is an empty cell."""

    rows: int
    columns: int
    items: tuple[Item | None, ...]
    background: int  # index into PALETTE
    noise: int = 0  # amplitude, 0-255
    noise_x: int = 0  # where in the noise texture this scene starts
    noise_y: int = 0
    lines: int = 0  # strength of separator lines, 0-255

    def __post_init__(self) -> None:
        if len(self.items) != self.rows * self.columns:
            raise ValueError(f"{len(self.items)} items in a {self.rows}x{self.columns} grid")

    def shapes(self) -> list[tuple[int, Item]]:
        """Cells holding a shape, with their index."""
        return [(i, item) for i, item in enumerate(self.items) if item and item.shape >= 0]

    def labels(self) -> list[tuple[int, Item]]:
        """Cells holding a text, with their index."""
        return [(i, item) for i, item in enumerate(self.items) if item and item.text]


def draw_scene(rng: random.Random, *, smallest: int, single_label: bool = False) -> Scene:
    """A random 3x3 scene of shapes and labels.

    Args:
        smallest: lower end of ``Item.scale``; large images allow small objects.
        single_label: put exactly one label in it, so that "the label" needs no position.
    """
    dark = rng.random() < 0.25
    background = rng.choice(DARK_BACKGROUND_IDS if dark else LIGHT_BACKGROUND_IDS)
    # Restricting the palette now and then makes larger counts common.
    shapes = _subset(rng, len(SHAPES))
    colours = _subset(rng, len(COLOUR_NAMES))
    cells = GRID * GRID
    num_labels = 1 if single_label else rng.choice((1, 2, 2, 3, 3, 4))
    num_shapes = rng.randint(2, cells - num_labels)
    items: list[Item | None] = [None] * cells
    for place, cell in enumerate(rng.sample(range(cells), num_labels + num_shapes)):
        if place < num_labels:
            items[cell] = _label(rng, dark, smallest)
        else:
            items[cell] = Item(
                colour=rng.choice(colours),
                shape=rng.choice(shapes),
                **_jitter(rng, smallest),
            )
    return Scene(GRID, GRID, tuple(items), background, **scene_noise(rng))


def scene_noise(rng: random.Random) -> dict[str, Any]:
    """Random noise and separator fields of a :class:`Scene`."""
    return {
        "noise": rng.randrange(0, 256) if rng.random() < 0.7 else 0,
        "noise_x": rng.randrange(256),
        "noise_y": rng.randrange(256),
        "lines": rng.randrange(40, 160) if rng.random() < 0.3 else 0,
    }


def _subset(rng: random.Random, count: int) -> list[int]:
    if rng.random() < 0.6:
        return list(range(count))
    return rng.sample(range(count), rng.randint(1, 3))


def _jitter(rng: random.Random, smallest: int) -> dict[str, Any]:
    return {
        "dx": rng.randrange(256),
        "dy": rng.randrange(256),
        "scale": rng.randint(smallest, 255),
        "angle": rng.randrange(256),
        "shade": rng.randrange(256),
    }


def _label(rng: random.Random, dark: bool, smallest: int) -> Item:
    text = "".join(rng.choice(LABEL_CHARACTERS) for _ in range(rng.randint(2, MAX_TEXT)))
    style = rng.random()
    if style < 0.45:
        ink, plate, plate_colour = (LIGHT_INK_ID if dark else DARK_INK_ID), NO_PLATE, 0
    elif style < 0.75 or dark:
        ink, plate, plate_colour = DARK_INK_ID, HUG_PLATE, LIGHT_INK_ID
    else:
        ink, plate, plate_colour = LIGHT_INK_ID, HUG_PLATE, DARK_INK_ID
    return Item(
        colour=ink, text=text, plate=plate, plate_colour=plate_colour, **_jitter(rng, smallest)
    )
