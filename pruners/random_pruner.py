"""Random choice: the baseline every other pruner has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import UsageError
from .base import VisualTokenPruner
from .request import PruneRequest

_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class RandomOptions:
    """``seed``, 0 or more: the same seed keeps the same places of the same prompt."""

    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise UsageError(f"seed must be 0 to {_LARGEST_SEED}, got {self.seed!r}")


class RandomPruner(VisualTokenPruner):
    """A uniform random sample of each span.

    Source: none needed; a baseline that published methods do not always beat. Each span keeps
    exactly its own quota, drawn without replacement. Default: seed 0. The draw depends on the seed
    and the spans' lengths only, and is made on the CPU, so all devices and repeated runs agree.
    Cost: O(n) for n tokens. Use it in accuracy tables, over several seeds, beside the pruner under
    test.
    """

    Options = RandomOptions
    options: RandomOptions

    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64 on the CPU, span by span."""
        generator = torch.Generator().manual_seed(self.options.seed)
        spans = zip(request.io.spans, request.quotas, strict=True)
        return torch.cat(
            [
                span.start + torch.randperm(len(span), generator=generator)[:quota]
                for span, quota in spans
            ]
        )
