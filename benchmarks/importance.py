"""Attention importance: the kernels against the materialised matrix, beside attention itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as _attention

from ..pruners.kernels.column_sums import column_sums
from ..pruners.kernels.log_sum_exp import log_sum_exp
from ..pruners.kernels.segments import segment_table
from .checks import WrongResult
from .timing import Call, Timer, extra_memory, poison


@dataclass(frozen=True)
class AttentionShape:
    """``segments`` images of ``patches`` patches each."""

    segments: int
    patches: int
    heads: int
    width: int

    def __str__(self) -> str:
        return f"{self.segments} x {self.patches}, {self.heads} heads of {self.width}"

    def make(self, seed: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        """Random queries and keys ``[S,H,N,D]`` whose attention is neither flat nor a point."""
        generator = torch.Generator(device).manual_seed(seed)
        shape = (2, self.segments, self.heads, self.patches, self.width)
        q, k = torch.randn(shape, generator=generator, device=device).to(dtype)
        return 1.5 * q, k

    @property
    def bounds(self) -> list[tuple[int, int, int]]:
        return [(segment, 0, self.patches) for segment in range(self.segments)]

    @property
    def scale(self) -> float:
        return float(self.width**-0.5)


def check(shape: AttentionShape, dtype: torch.dtype, device: torch.device) -> float:
    """Relative error of the kernels against fp64, one segment shorter than the others.

    Raises:
        WrongResult: too large, sums that are not the lengths, or runs that differ.
    """
    q, k = shape.make(int(torch.randint(2**31, (1,))), dtype, device)
    bounds = shape.bounds
    bounds[-1] = (shape.segments - 1, 3, shape.patches - 3)
    poison(device)
    found = column_sums(q, k, bounds, shape.scale)
    poison(device)
    if not torch.equal(found, column_sums(q, k, bounds, shape.scale)):
        raise WrongResult(f"importance {shape} {dtype}: two runs differ")
    expected = torch.zeros_like(found, dtype=torch.float64)
    for batch, start, length in bounds:
        rows = slice(start, start + length)
        scores = q[batch, :, rows].double() @ k[batch, :, rows].double().mT * shape.scale
        expected[batch, :, rows] = scores.softmax(dim=-1).sum(dim=1)
        total = float(found[batch, :, rows].mean(dim=0).sum())
        if not abs(total / length - 1) < 1e-3:
            raise WrongResult(f"importance {shape} {dtype}: {length} patches receive {total}")
    error = float((found - expected).norm() / expected.norm())
    if not error < 1e-3:
        raise WrongResult(f"importance {shape} {dtype}: relative error {error:.1e}")
    return error


def measure(shape: AttentionShape, timer: Timer, sets: int) -> Iterator[dict[str, Any]]:
    """Times and memory in bf16."""
    bounds, scale = shape.bounds, shape.scale
    inputs = []
    for seed in range(sets):
        q, k = shape.make(seed, torch.bfloat16, timer.device)
        lse = log_sum_exp(q, k, bounds, segment_table(bounds, q, k), scale)
        inputs.append((q, k, lse))

    ways: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
        "kernel, LSE given": lambda q, k, lse: column_sums(q, k, bounds, scale, lse),
        "kernels, LSE computed": lambda q, k, lse: column_sums(q, k, bounds, scale),
        "matrix materialised": lambda q, k, lse: _materialised(q, k, scale),
        "(fused attention itself)": lambda q, k, lse: _attention(q, k, k, scale=scale),
    }
    for way, function in ways.items():
        calls: list[Call] = [partial(function, *given) for given in inputs]
        yield {
            "what": f"importance, {way}",
            "shape": str(shape),
            "eager_ms": timer.eager(calls),
            "host_ms": timer.host(calls),
            "memory_mb": extra_memory(calls[0], timer.device),
        }


def _materialised(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Column sums ``[S,H,N]`` by way of the matrix, in the operators' precision."""
    return ((q @ k.mT).float() * scale).softmax(dim=-1).sum(dim=2)
