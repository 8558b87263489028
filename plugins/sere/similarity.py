"""How alike two experts are: measures over what all of them make of the same tokens.

Each measure sums over chunks of tokens, so memory does not grow with their number. Sums are fp64:
distances of near-equal experts are small differences of large numbers.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

_SMALLEST_NORM = 1e-8


class Similarity(Protocol):
    """A measure of one layer's experts. ``chunk`` is the number of tokens to give it at a time."""

    chunk: int

    def update(self, outputs: Tensor) -> None:
        """Take the outputs ``[N,c,H]`` of all experts, not weighted, for the next ``c`` tokens."""

    def result(self) -> Tensor:
        """``[N,N]`` fp32 in 0..1, symmetric, with ones on the diagonal."""


class Frobenius:
    """One minus the distance of all outputs, as part of the largest distance in the layer.

    The least similar pair is at 0 by construction: values compare within a layer only. Experts
    that are all the same are at 1.
    """

    chunk = 512

    def __init__(self, experts: int, device: torch.device) -> None:
        self._gram = torch.zeros(experts, experts, dtype=torch.float64, device=device)

    def update(self, outputs: Tensor) -> None:
        self._gram += _gram(outputs)

    def result(self) -> Tensor:
        squares = self._gram.diagonal()
        distance = (squares[:, None] + squares - 2 * self._gram).clamp(min=0).sqrt()
        largest = distance.max()
        return _finished(1 - distance / largest if largest > 0 else torch.ones_like(distance))


class Cosine:
    """The mean over tokens of the outputs' cosine, moved from -1..1 to 0..1."""

    chunk = 512

    def __init__(self, experts: int, device: torch.device) -> None:
        self._sum = torch.zeros(experts, experts, dtype=torch.float64, device=device)
        self._tokens = 0

    def update(self, outputs: Tensor) -> None:
        norms = outputs.double().norm(dim=-1, keepdim=True).clamp(min=_SMALLEST_NORM)
        self._sum += _gram(outputs / norms)
        self._tokens += outputs.shape[1]

    def result(self) -> Tensor:
        return _finished((self._sum / self._tokens + 1) / 2)


class LinearCKA:
    """Linear centred kernel alignment (Kornblith et al., 2019), the mean over chunks.

    ``|Y^T X|^2 / (|X^T X| |Y^T Y|)`` of features centred over the chunk's tokens. It is computed
    from token kernels, ``<XX^T, YY^T>``, which are smaller than feature covariances. Few tokens per
    feature draw it towards 1, for all pairs alike.
    """

    chunk = 1024

    def __init__(self, experts: int, device: torch.device) -> None:
        self._sum = torch.zeros(experts, experts, dtype=torch.float64, device=device)
        self._chunks = 0

    def update(self, outputs: Tensor) -> None:
        centred = (outputs - outputs.mean(dim=1, keepdim=True)).float()  # [N,c,H]
        inner = _gram(centred @ centred.mT)  # [N,N], of kernels [N,c,c]
        norms = inner.diagonal().sqrt()
        product = norms[:, None] * norms
        self._sum += (inner / product.where(product > 0, torch.inf)).clamp(0, 1)
        self._chunks += 1

    def result(self) -> Tensor:
        return _finished(self._sum / self._chunks)


METRICS: dict[str, type[Frobenius] | type[Cosine] | type[LinearCKA]] = {
    "frobenius": Frobenius,
    "cosine": Cosine,
    "cka": LinearCKA,
}


def _gram(outputs: Tensor) -> Tensor:
    """Inner products ``[N,N]`` of all that each expert has in ``outputs [N,...]``."""
    flat = outputs.flatten(1).double()
    return flat @ flat.T


def _finished(similarity: Tensor) -> Tensor:
    result = ((similarity + similarity.T) / 2).float().clamp(0, 1).cpu()
    return result.fill_diagonal_(1)
