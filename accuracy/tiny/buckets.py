"""Buckets: the prompt layouts of the tiny world, each with images of one size."""

from __future__ import annotations

from dataclasses import dataclass

from .scenes import GRID
from .tables import TableLimits

PATCH = 16
MERGE = 2


@dataclass(frozen=True)
class Bucket:
    """Prompts of ``images`` images of ``height x width`` pixels.

    Attributes:
        tasks: question families and how often each is asked, as relative weights.
        table: limits of the table drawn; ``None`` draws 3x3 scenes.
        branch_tokens: longest question with its answer and the tokens around them.
        smallest: lower end of ``Item.scale`` in its scenes.
    """

    name: str
    height: int
    width: int
    images: int
    tasks: tuple[tuple[str, int], ...]
    branch_tokens: int
    table: TableLimits | None = None
    smallest: int = 85

    def __post_init__(self) -> None:
        step = PATCH * MERGE
        if self.height % step or self.width % step:
            raise ValueError(f"{self.name}: sides are multiples of {step} pixels")
        if self.images < 1 or not self.tasks:
            raise ValueError(f"{self.name}: at least one image and one task")

    @property
    def patch_grid(self) -> tuple[int, int]:
        """Rows and columns of patches of one image."""
        return self.height // PATCH, self.width // PATCH

    @property
    def token_grid(self) -> tuple[int, int]:
        """Rows and columns of visual tokens of one image."""
        return self.height // PATCH // MERGE, self.width // PATCH // MERGE

    @property
    def patches(self) -> int:
        """Patches of one prompt, all images together."""
        rows, columns = self.patch_grid
        return self.images * rows * columns

    @property
    def cells(self) -> int:
        """Cell slots a scene of this bucket needs."""
        return self.table.cells if self.table else GRID * GRID


_SINGLE = (("shape", 4), ("colour", 4), ("count", 4), ("read", 8), ("where", 2))
_SEVERAL = (("shape", 3), ("colour", 3), ("count", 4), ("read", 5), ("which", 4))
_TABLE = (("table", 1),)

_ALL = (
    Bucket("s256", 256, 256, 1, _SINGLE, 20),
    Bucket("w384", 256, 384, 1, _SINGLE, 20),
    Bucket("h384", 384, 256, 1, _SINGLE, 20),
    Bucket("s512", 512, 512, 1, _SINGLE, 20, smallest=0),
    Bucket("m2", 256, 256, 2, _SEVERAL, 24),
    Bucket("m4", 256, 256, 4, _SEVERAL, 24),
    Bucket("t256", 256, 256, 1, _TABLE, 21, TableLimits(5, 5)),
    Bucket("t384", 256, 384, 1, _TABLE, 21, TableLimits(5, 7)),
    Bucket("t512", 512, 512, 1, _TABLE, 21, TableLimits(8, 8)),
)
BUCKETS: dict[str, Bucket] = {bucket.name: bucket for bucket in _ALL}
