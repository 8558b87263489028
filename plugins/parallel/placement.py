"""Which rank holds which experts, and which rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core import UsageError


@dataclass(frozen=True)
class Placement:
    """``experts`` in equal runs of consecutive ids on ``ranks``: expert ``j`` is on ``j*P//N``.

    Raises:
        UsageError: a rank would hold no expert.
    """

    experts: int
    ranks: int

    def __post_init__(self) -> None:
        if not 1 <= self.ranks <= self.experts:
            raise UsageError(
                f"{self.experts} experts cannot be split over {self.ranks} ranks; start 1 to"
                f" {self.experts} of them"
            )

    def local(self, rank: int) -> slice:
        """The experts of ``rank``."""
        first, after = (-(-(rank + n) * self.experts // self.ranks) for n in (0, 1))
        return slice(first, after)

    @property
    def sizes(self) -> list[int]:
        """How many experts each rank has."""
        return [self.local(rank).stop - self.local(rank).start for rank in range(self.ranks)]

    def owners(self, device: torch.device) -> Tensor:
        """The rank ``[N]`` int64 of each expert."""
        return torch.arange(self.experts, device=device) * self.ranks // self.experts

    def rows(self, rank: int, count: int) -> slice:
        """The part of ``count`` rows that ``rank`` works for; it may be empty."""
        first, after = ((rank + n) * count // self.ranks for n in (0, 1))
        return slice(first, after)
