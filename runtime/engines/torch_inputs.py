"""Inputs that stay where they are, as a CUDA graph needs them, whatever is written into them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core import PipelineIO
from ...pruners.kernels import usable
from .base import DecodeBatch


def prompt_bucket(rows: int) -> int:
    """The rows a prompt is padded to: a multiple of 64 up to 512, of 128 beyond."""
    step = 64 if rows <= 512 else 128
    return -(-rows // step) * step


def batch_bucket(rows: int, most: int) -> int:
    """The rows a decode step is padded to: none up to 8, then a multiple of 8, at most ``most``."""
    return rows if rows <= 8 else min(most, -(-rows // 8) * 8)


class PromptInputs:
    """One prompt of up to ``rows`` rows. Rows beyond it are zeros, which attention can bear."""

    def __init__(
        self, rows: int, hidden: int, planes: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.embeds = torch.zeros(rows, hidden, dtype=dtype, device=device)
        self.planes = torch.zeros(planes, rows, hidden, dtype=dtype, device=device)
        self.positions = torch.zeros(3, rows, dtype=torch.int64, device=device)
        self.used = torch.zeros(rows, dtype=torch.bool, device=device)  # false for padding
        self.visual = torch.zeros(rows, dtype=torch.bool, device=device)
        self._numbers = torch.zeros(2, dtype=torch.int64, device=device)
        self.slot, self.last = self._numbers[:1], self._numbers[1:]  # [1] each

    def fill(self, slot: int, io: PipelineIO, bucket: int) -> None:
        """Write the first ``bucket`` rows."""
        if usable(io.embeds):
            from .kernels.prompt import place_prompt

            buffers = (self.embeds, self.planes, self.positions, self._numbers)
            place_prompt(slot, io, bucket, *buffers)
            return
        length = len(io)
        self.embeds[:length] = io.embeds
        self.embeds[length:bucket] = 0
        self.planes[:, :length] = io.deepstack
        self.planes[:, length:bucket] = 0
        self.positions[:, :length] = io.positions
        self.positions[:, length:bucket] = 0
        upload([slot, length - 1], self._numbers)

    def mark(self, io: PipelineIO, bucket: int) -> None:
        """Say what the first ``bucket`` rows are; only experts ask."""
        self.used[: len(io)] = True
        self.used[len(io) : bucket] = False
        self.visual[:bucket] = False
        for span in io.spans:
            self.visual[span.start : span.end] = True


class BatchInputs:
    """One token each of up to ``rows`` sequences."""

    def __init__(self, rows: int, hidden: int, dtype: torch.dtype, device: torch.device) -> None:
        self.embeds = torch.zeros(rows, hidden, dtype=dtype, device=device)
        self.positions = torch.zeros(rows, dtype=torch.int64, device=device)
        self._places = torch.zeros(rows, 2, dtype=torch.int64, device=device)
        self.slots, self.places = self._places.unbind(1)
        self.used = torch.zeros(rows, dtype=torch.bool, device=device)  # false for padding

    def fill(self, batch: DecodeBatch, bucket: int) -> None:
        """Write the first ``bucket`` rows. Those that pad repeat the first one: they write into
        the KV cache what it writes."""
        count = len(batch)
        self.embeds[:count] = batch.embeds
        self.embeds[count:bucket] = batch.embeds[:1]
        self.positions[:count] = batch.positions
        self.positions[count:bucket] = batch.positions[:1]
        places = list(enumerate(batch.lengths))
        places += places[:1] * (bucket - count)
        upload(places, self._places[:bucket])

    def mark(self, count: int, bucket: int) -> None:
        """Say which of the first ``bucket`` rows are no padding; only experts ask."""
        self.used[:count] = True
        self.used[count:bucket] = False


def upload(numbers: list[int] | list[tuple[int, int]], target: Tensor) -> None:
    """Copy numbers to the device without waiting for it."""
    on_cuda = target.is_cuda
    target.copy_(torch.tensor(numbers, pin_memory=on_cuda), non_blocking=on_cuda)
