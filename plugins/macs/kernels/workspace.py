"""The tensors one call of the kernels passes from launch to launch."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ....core.launch import power_of_two
from ..report import ENTRIES

AHEAD = 8  # pairs of the queue that are read at a time; a power of two, at most 64
ONE_TOKEN = 1 << 24  # beside weights, in one number
AGAIN = 1 << 28  # above what a pair needs


@dataclass(frozen=True)
class Workspace:
    """Inputs as :func:`~edgevlm.plugins.macs.reference.macs_capacity` takes them, contiguous, bool
    ones as uint8; results; and what is in between.
    """

    probabilities: Tensor  # [R,N] fp32
    ids: Tensor  # [R,k] int64 or int32
    weights: Tensor  # [R,k]
    rows: Tensor  # [R] uint8
    visual: Tensor  # [R] uint8
    groups: Tensor  # [N] fp32
    settings: Tensor  # [S] fp32
    similarity: Tensor | None  # [N,N] fp32
    entropy: Tensor  # [R] fp32

    moved: Tensor = field(init=False)  # [R,k]: the new ids
    new_weights: Tensor = field(init=False)  # [R,k]
    report: Tensor = field(init=False)  # [M] fp32
    units: Tensor = field(init=False)  # [R] int32
    state: Tensor = field(init=False)  # [2] int64: pairs that overflow, tokens an expert may take
    limits: Tensor = field(init=False)  # [N] int64, units
    asked: Tensor = field(init=False)  # [2,N] int64: units and tokens that ask for each expert
    held: Tensor = field(init=False)  # [2,N] int64: units and tokens that each expert takes
    keys: Tensor = field(init=False)  # [N,R] int64: of those who ask, ascending by row
    asking: Tensor = field(init=False)  # [N,R] int32: their slots, row * k + slot
    ordered: Tensor = field(init=False)  # [N,R] int32: slots in order of admission
    turned_keys: Tensor = field(init=False)  # [R*k] int64: of pairs that overflow, in any order
    turned: Tensor = field(init=False)  # [R*k] int32: their slots
    turns: Tensor = field(init=False)  # [R*k] int32: the place in the queue of each such slot
    queue: Tensor = field(init=False)  # [R*k+4*AHEAD,2] int64: pairs that overflow, in order
    targets: Tensor = field(init=False)  # [R*k+AHEAD] int32: keys of where they go
    preferences: Tensor = field(init=False)  # [R,N] int32, or [R+N,N]: keys of experts

    def __post_init__(self) -> None:
        rows, experts, pairs = self.count, self.experts, self.ids.numel()
        lists = rows if self.similarity is None else rows + experts
        sizes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "moved": (tuple(self.ids.shape), self.ids.dtype),
            "new_weights": (tuple(self.weights.shape), self.weights.dtype),
            "report": ((len(ENTRIES),), torch.float32),
            "units": ((rows,), torch.int32),
            "state": ((2,), torch.int64),
            "limits": ((experts,), torch.int64),
            "asked": ((2, experts), torch.int64),
            "held": ((2, experts), torch.int64),
            "keys": ((experts, rows), torch.int64),
            "asking": ((experts, rows), torch.int32),
            "ordered": ((experts, rows), torch.int32),
            "turned_keys": ((pairs,), torch.int64),
            "turned": ((pairs,), torch.int32),
            "turns": ((pairs,), torch.int32),
            "queue": ((pairs + 4 * AHEAD, 2), torch.int64),
            "targets": ((pairs + AHEAD,), torch.int32),
            "preferences": ((lists, experts), torch.int32),
        }
        for name, (shape, dtype) in sizes.items():
            made = torch.empty(shape, dtype=dtype, device=self.ids.device)
            object.__setattr__(self, name, made)

    @property
    def count(self) -> int:
        """R."""
        return self.ids.shape[0]

    @property
    def top_k(self) -> int:
        """k."""
        return self.ids.shape[1]

    @property
    def experts(self) -> int:
        """N."""
        return self.probabilities.shape[1]

    @property
    def slots(self) -> int:
        """k as a power of two."""
        return power_of_two(self.top_k)

    @property
    def width(self) -> int:
        """N as a power of two."""
        return power_of_two(self.experts)

    @property
    def entries(self) -> int:
        """M as a power of two."""
        return power_of_two(len(ENTRIES))
