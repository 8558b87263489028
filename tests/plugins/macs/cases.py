"""Random layer inputs and settings, with the ties and extremes that decide."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.plugins.macs import MacsConfig
from edgevlm.plugins.macs.config import CHOICES

SIZES = (4, 6, 11, 16)


@dataclass(frozen=True)
class Case:
    hidden: Tensor
    probabilities: Tensor
    ids: Tensor
    weights: Tensor
    rows: Tensor
    visual: Tensor
    groups: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What every form takes, but the settings."""
        choice = (self.probabilities, self.ids, self.weights)
        return (self.hidden, *choice, self.rows, self.visual, self.groups)

    @property
    def experts(self) -> int:
        return self.probabilities.shape[1]

    @property
    def taken(self) -> Tensor:
        """Rows that take part and are text."""
        return self.rows & ~self.visual


def make_case(
    seed: int,
    rows: int,
    experts: int,
    top_k: int,
    *,
    visual: float = 0.7,
    present: float = 1.0,
    ties: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """Uneven experts. With ``ties`` many probabilities are equal."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, experts, generator=generator) * 1.5
    logits += torch.randn(experts, generator=generator) * 2
    probabilities = (logits.round() if ties else logits).softmax(1)
    best, ids = probabilities.topk(top_k)
    chance = torch.rand(2, rows, generator=generator)
    return Case(
        hidden=torch.randn(rows, 12, generator=generator).to(dtype),
        probabilities=probabilities,
        ids=ids,
        weights=(best / best.sum(1, keepdim=True)).to(dtype),
        rows=chance[0] < present,
        visual=chance[1] < visual,
        groups=torch.randint(-1, 2, (experts,), generator=generator).float(),
    )


@st.composite
def cases(draw: st.DrawFn, dtype: torch.dtype = torch.float32, most_rows: int = 60) -> Case:
    experts = draw(st.sampled_from(SIZES))
    return make_case(
        draw(st.integers(0, 2**31)),
        draw(st.integers(1, most_rows)),
        experts,
        draw(st.integers(1, min(4, experts))),
        visual=draw(st.sampled_from((0.0, 0.5, 0.8, 1.0))),
        present=draw(st.sampled_from((0.0, 0.6, 1.0))),
        ties=draw(st.booleans()),
        dtype=dtype,
    )


@st.composite
def configs(draw: st.DrawFn, **fixed: object) -> MacsConfig:
    devices = draw(st.sampled_from((1, 2, 4)))
    values: dict[str, object] = {
        "method": draw(st.sampled_from(("macs", "macs", "macs", "token_drop", "off"))),
        "capacity_factor": draw(st.sampled_from((0.3, 0.6, 1.0, 1.5))),
        "gain": draw(st.sampled_from((0.0, 0.5, 2.0))),
        "sensitivity": draw(st.sampled_from((0.0, 1.0, 50.0))),
        "minimum_capacity": draw(st.sampled_from((0.0, 1.0))),
        "reroute_threshold": draw(st.sampled_from((0.0, 0.5))),
        "token_limit": draw(st.sampled_from((0.0, 0.7, 1.2))),
        "devices": devices,
        "device": draw(st.integers(0, devices - 1)),
    }
    for name in ("zscore_scope", "capacity_basis", "order", "locality", "rerouted_weight"):
        values[name] = draw(st.sampled_from(CHOICES[name]))
    for name in ("reroute", "renormalize", "keep_top1_text", "disable_when_text_only"):
        values[name] = draw(st.booleans())
    return MacsConfig(**{**values, **fixed})  # type: ignore[arg-type]
