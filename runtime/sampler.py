"""Choosing the next token: greedy, temperature, top-k, top-p, with a seed per request.

Randomness is one uniform number per token from the request's own generator, on the CPU, and the
inverse of the cumulative distribution on the logits' device. So a request with a seed gives the
same text whatever runs beside it, and one step costs one device-to-host copy for the whole batch.
A request with a constraint chooses among the tokens it allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .constraint import TokenConstraint
from .request import SamplingParams


@dataclass
class TokenSampler:
    """The sampling state of one request."""

    params: SamplingParams
    constraint: TokenConstraint | None = None
    generator: torch.Generator = field(default_factory=torch.Generator)

    def __post_init__(self) -> None:
        if self.params.seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(self.params.seed)

    def uniform(self) -> float:
        """The next number in [0, 1)."""
        return float(torch.rand((), generator=self.generator, dtype=torch.float64))


def sample(logits: Tensor, samplers: Sequence[TokenSampler], forbidden: Tensor) -> list[int | None]:
    """Choose one token per row.

    Args:
        logits: ``[n,V]`` fp32; row ``i`` belongs to ``samplers[i]``.
        forbidden: int64 ids that are never chosen (media markers a model must not write).

    Returns:
        ``n`` token ids; ``None`` where a row holds NaN or leaves no finite value.
    """
    masked = logits.index_fill(1, forbidden, float("-inf"))
    for row, sampler in enumerate(samplers):
        if sampler.constraint is not None:
            allowed = sampler.constraint.allowed().to(logits.device)  # [V]
            masked[row].masked_fill_(~allowed, float("-inf"))
    best, choice = masked.max(dim=1)  # [n]
    broken = logits.isnan().any(dim=1) | ~best.isfinite()
    random_rows = [i for i, s in enumerate(samplers) if not s.params.greedy]
    if random_rows:
        rows = torch.tensor(random_rows, device=logits.device)
        chosen = _sample_rows(masked[rows], [samplers[i] for i in random_rows])
        choice = choice.index_copy(0, rows, chosen)
    ids = torch.where(broken, -1, choice).tolist()  # the step's one synchronisation
    return [None if token < 0 else token for token in ids]


def _sample_rows(logits: Tensor, samplers: list[TokenSampler]) -> Tensor:
    """Sampled ids ``[m]`` of ``logits [m,V]``, every row under its own parameters."""

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, device=logits.device)[:, None]  # [m,1]

    vocabulary = logits.shape[1]
    temperature = column([s.params.temperature for s in samplers])
    top_p = column([s.params.top_p for s in samplers])
    top_k = column([float(s.params.top_k or vocabulary) for s in samplers])
    uniform = column([s.uniform() for s in samplers])

    ordered, ids = logits.sort(dim=1, descending=True, stable=True)
    probabilities = (ordered / temperature).softmax(dim=1)
    rank = torch.arange(vocabulary, device=logits.device)
    probabilities = probabilities.masked_fill(rank >= top_k, 0.0)
    probabilities = probabilities / probabilities.sum(dim=1, keepdim=True)
    # A token is kept while the mass before it is below top_p, so the first always is.
    mass_before = probabilities.cumsum(dim=1) - probabilities
    probabilities = probabilities.masked_fill((mass_before >= top_p) & (rank > 0), 0.0)

    cumulative = probabilities.cumsum(dim=1)
    picked = (cumulative <= uniform * cumulative[:, -1:]).sum(dim=1, keepdim=True)
    # Rows that hold NaN have no kept token; the caller discards what is chosen for them.
    last_kept = ((probabilities > 0).sum(dim=1, keepdim=True) - 1).clamp(min=0)
    return ids.gather(1, torch.minimum(picked, last_kept))[:, 0]
