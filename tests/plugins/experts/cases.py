"""Experts and routings to compute."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    rows: int
    experts: int = 5
    top_k: int = 2
    hidden: int = 24
    width: int = 12


def make(
    shape: Shape, dtype: torch.dtype, seed: int = 0, drops: float = 0.0, distinct: bool = True
) -> list[Tensor]:
    """The operator's five inputs; a share ``drops`` of the slots is dropped."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator)

    scores = normal(shape.rows, shape.experts)
    if distinct:
        ids = scores.topk(shape.top_k).indices
    else:
        ids = torch.randint(shape.experts, (shape.rows, shape.top_k), generator=generator)
    weights = normal(shape.rows, shape.top_k).softmax(dim=1)
    dropped = torch.rand(ids.shape, generator=generator) < drops
    ids[dropped] = shape.experts
    return [
        normal(shape.rows, shape.hidden).to(dtype),
        ids,
        weights.to(dtype),
        (normal(shape.experts, shape.hidden, 2 * shape.width) / shape.hidden**0.5).to(dtype),
        (normal(shape.experts, shape.width, shape.hidden) / shape.width**0.5).to(dtype),
    ]


def expected(hidden: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """Slot by slot, in fp64."""
    out = torch.zeros(hidden.shape, dtype=torch.float64)
    for row, (experts, shares) in enumerate(zip(ids.tolist(), weights.tolist(), strict=True)):
        for expert, share in zip(experts, shares, strict=True):
            if expert < len(gate_up):
                gate, up = (hidden[row].double() @ gate_up[expert].double()).chunk(2)
                out[row] += share * ((gate * gate.sigmoid() * up) @ down[expert].double())
    return out


def assert_near(found: Tensor, wanted: Tensor) -> None:
    """To within the rounding of ``found``'s dtype."""
    assert found.shape == wanted.shape
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[found.dtype]
    torch.testing.assert_close(found.double(), wanted, atol=tolerance, rtol=tolerance)
