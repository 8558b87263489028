"""Questions about scenes, and their answers.

A *family* looks at the scenes of one prompt and returns a question about them, or ``None`` when the
scenes do not allow one (reading a label where there is none). With several images, questions name
the image they mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .lexicon import COLOUR_NAMES, COLUMN_LETTERS, PLURALS, POSITIONS, SHAPES, with_article
from .scenes import Item, Scene


@dataclass(frozen=True, slots=True)
class Question:
    """One question, its answer and the task family it belongs to."""

    task: str
    text: str
    answer: str

    def __post_init__(self) -> None:
        if not self.text or not self.answer:
            raise ValueError(f"a question and an answer are needed, not {self!r}")


Family = Callable[[random.Random, Sequence[Scene]], Question | None]


def ask(task: str, rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    """A random question of family ``task``, or ``None`` where the scenes allow none."""
    return FAMILIES[task](rng, scenes)


def _shape(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    scene, image = _pick(rng, scenes)
    if not (found := scene.shapes()):
        return None
    cell, item = rng.choice(found)
    place = _place(cell, image)
    text = rng.choice(
        (
            f"What shape is at the {place}?",
            f"Which shape is in the {place}?",
            f"Name the shape at the {place}.",
        )
    )
    return Question("shape", text, SHAPES[item.shape])


def _colour(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    scene, image = _pick(rng, scenes)
    if not (found := scene.shapes()):
        return None
    cell, item = rng.choice(found)
    place = _place(cell, image)
    text = rng.choice(
        (
            f"What colour is the shape at the {place}?",
            f"Which colour is in the {place}?",
            f"Name the colour at the {place}.",
        )
    )
    return Question("colour", text, COLOUR_NAMES[item.colour])


def _count(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    scene, image = _pick(rng, scenes)
    found = [item for _, item in scene.shapes()]
    kind = rng.random()
    # Mostly something that is there, so that zero is not the common answer.
    model = rng.choice(found) if found and rng.random() < 0.9 else None
    if kind < 0.45:
        shape = model.shape if model else rng.randrange(len(SHAPES))
        noun, number = PLURALS[shape], sum(item.shape == shape for item in found)
    elif kind < 0.85:
        colour = model.colour if model else rng.randrange(len(COLOUR_NAMES))
        noun = f"{COLOUR_NAMES[colour]} shapes"
        number = sum(item.colour == colour for item in found)
    elif kind < 0.93:
        noun, number = "shapes", len(found)
    else:
        noun, number = "labels", len(scene.labels())
    where = f" in {image}" if image else ""
    text = rng.choice(
        (
            f"How many {noun} are there{where}?",
            f"Count the {noun}{where}.",
            f"What is the number of {noun}{where}?",
        )
    )
    return Question("count", text, str(number))


def _read(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    scene, image = _pick(rng, scenes)
    if not (found := scene.labels()):
        return None
    cell, item = rng.choice(found)
    if len(found) == 1 and rng.random() < 0.6:
        where = f" in {image}" if image else ""
    else:
        where = f" at the {_place(cell, image)}"
    text = rng.choice(
        (
            f"Read the label{where}.",
            f"What does the label{where} say?",
            f"What is the text{where}?",
        )
    )
    return Question("read", text, item.text)


def _where(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    scene, image = _pick(rng, scenes)
    nouns = [item.noun for _, item in scene.shapes()]
    unique = [(cell, item) for cell, item in scene.shapes() if nouns.count(item.noun) == 1]
    if not unique:
        return None
    cell, item = rng.choice(unique)
    where = f" in {image}" if image else ""
    text = rng.choice((f"Where is the {item.noun}{where}?", f"Find the {item.noun}{where}."))
    return Question("where", text, POSITIONS[cell])


def _which(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    target = rng.randrange(len(scenes))
    others = {noun for i, s in enumerate(scenes) if i != target for noun in _nouns(s)}
    own = sorted(_nouns(scenes[target]) - others)
    if len(scenes) < 2 or not own:
        return None
    noun = with_article(rng.choice(own))
    text = rng.choice(
        (
            f"Which image shows {noun}?",
            f"Which image has {noun}?",
            f"In which image is {noun}?",
        )
    )
    return Question("which", text, f"image {target + 1}")


def _table(rng: random.Random, scenes: Sequence[Scene]) -> Question | None:
    scene, image = _pick(rng, scenes)
    row, column = rng.randrange(1, scene.rows), rng.randrange(1, scene.columns)
    item = scene.items[row * scene.columns + column]
    if not isinstance(item, Item) or not item.text.isdigit():
        return None
    where = f"row {row}, column {COLUMN_LETTERS[column - 1]}" + (f" of {image}" if image else "")
    text = rng.choice(
        (
            f"What is the value in {where}?",
            f"Read the cell at {where}.",
            f"What number is in {where}?",
        )
    )
    return Question("table", text, item.text)


def _pick(rng: random.Random, scenes: Sequence[Scene]) -> tuple[Scene, str]:
    """One scene and how to call it: ``""`` where it is the only one."""
    index = rng.randrange(len(scenes))
    return scenes[index], f"image {index + 1}" if len(scenes) > 1 else ""


def _place(cell: int, image: str) -> str:
    return POSITIONS[cell] + (f" of {image}" if image else "")


def _nouns(scene: Scene) -> set[str]:
    return {item.noun for _, item in scene.shapes()}


FAMILIES: dict[str, Family] = {
    "shape": _shape,
    "colour": _colour,
    "count": _count,
    "read": _read,
    "where": _where,
    "which": _which,
    "table": _table,
}
TASKS = tuple(FAMILIES)
