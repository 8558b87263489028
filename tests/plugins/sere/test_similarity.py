"""Measures by accumulation against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgevlm.plugins.sere.similarity import METRICS

from .test_reference import GOLDEN

CPU = torch.device("cpu")


def outputs(experts: int = 5, tokens: int = 24, hidden: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    made = torch.randn(experts, tokens, hidden, generator=generator)
    made[3] = 2 * made[1]
    made[4, ::2] = 0
    return made


def measured(metric: str, outputs: Tensor, chunk: int) -> Tensor:
    measure = METRICS[metric](len(outputs), CPU)
    for part in outputs.split(chunk, dim=1):
        measure.update(part)
    return measure.result()


def frobenius(a: Tensor) -> Tensor:
    distance = torch.cdist(a.double().flatten(1), a.double().flatten(1))
    return 1 - distance / distance.max()


def cosine(a: Tensor) -> Tensor:
    pairs = torch.cosine_similarity(a.double()[:, None], a.double()[None], dim=-1, eps=1e-8)
    return ((pairs.mean(dim=-1) + 1) / 2).fill_diagonal_(1)


def cka(a: Tensor) -> Tensor:
    x = a.double() - a.double().mean(dim=1, keepdim=True)
    inner = torch.einsum("pth,qtg->pqhg", x, x).square().sum(dim=(2, 3))
    return inner / (inner.diagonal()[:, None] * inner.diagonal()).sqrt()


DEFINITIONS = {"frobenius": frobenius, "cosine": cosine, "cka": cka}


@pytest.mark.parametrize("metric", METRICS)
def test_is_its_definition(metric: str) -> None:
    a = outputs()
    found = measured(metric, a, chunk=24)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), DEFINITIONS[metric](a), atol=1e-6, rtol=0)
    assert torch.equal(found, found.T)
    assert torch.equal(found.diagonal(), torch.ones(5))
    assert found.min() >= 0 and found.max() <= 1


@pytest.mark.parametrize("metric", ["frobenius", "cosine"])
def test_chunks_do_not_matter(metric: str) -> None:
    whole, parts = (measured(metric, outputs(), chunk) for chunk in (24, 5))
    torch.testing.assert_close(whole, parts, atol=1e-6, rtol=0)


def test_cka_is_the_mean_over_chunks() -> None:
    a = outputs()
    expected = (cka(a[:, :12]) + cka(a[:, 12:])) / 2
    torch.testing.assert_close(measured("cka", a, 12).double(), expected, atol=1e-6, rtol=0)


def test_golden_vector() -> None:
    p, c = torch.arange(5)[:, None], torch.arange(6)
    a = ((7 * p + 3 * c + 2 * p * c + 1) % 11 - 5).float().view(5, 3, 2)
    torch.testing.assert_close(measured("frobenius", a, 3), GOLDEN, atol=1e-6, rtol=0)


def test_equal_experts_are_at_one() -> None:
    a = outputs()[:1].expand(3, -1, -1)
    for metric in METRICS:
        torch.testing.assert_close(measured(metric, a, 24), torch.ones(3, 3))


def test_silent_experts_resemble_nothing() -> None:
    a = outputs()
    a[0] = 0
    assert measured("cka", a, 24)[0, 1:].tolist() == [0, 0, 0, 0]
    assert measured("cosine", a, 24)[0, 1:].tolist() == [0.5] * 4


def test_near_equal_experts_keep_their_distance() -> None:
    """Their squares agree to nine digits: fp32 sums would lose the difference."""
    a = outputs()[:3] + 100
    a[1] = a[0] + 1e-3
    distance = torch.cdist(a.double().flatten(1), a.double().flatten(1))
    found = measured("frobenius", a, 24)[0, 1]
    expected = float(1 - distance[0, 1] / distance.max())
    assert float(1 - found) == pytest.approx(1 - expected, rel=1e-3)
