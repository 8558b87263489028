"""Inputs of re-routing, hard ones included, and the rule spelled out expert by expert."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True)
class Case:
    ids: Tensor
    similarity: Tensor
    protected: Tensor
    decode_rows: Tensor
    top_k: int
    threshold: float

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        settings = torch.tensor([self.top_k]), torch.tensor([self.threshold])
        return (self.ids, self.similarity, self.protected, self.decode_rows, *settings)


def case(
    ids: list[list[int]],
    similarity: Tensor,
    top_k: int = 1,
    threshold: float = 0.0,
    protected: tuple[int, ...] = (),
    padded: tuple[int, ...] = (),
) -> Case:
    guarded = torch.zeros(len(similarity), dtype=torch.bool)
    guarded[list(protected)] = True
    rows = torch.ones(len(ids), dtype=torch.bool)
    rows[list(padded)] = False
    return Case(torch.tensor(ids), similarity, guarded, rows, top_k, threshold)


def spelled_out(case: Case) -> tuple[list[list[int]], list[int]]:
    """Routed ids and how many experts are in use before and after, in plain Python."""
    ids, experts = case.ids.tolist(), len(case.similarity)
    threshold = torch.tensor(case.threshold).item()  # as the operator gets it: fp32
    similarity = case.similarity.tolist()
    voters = [row for row, votes in zip(ids, case.decode_rows.tolist(), strict=True) if votes]
    primary = {e for row in voters for e in row[: max(case.top_k, 0)] if 0 <= e < experts}

    def target(expert: int) -> int:
        if expert in primary or case.protected[expert]:
            return expert
        best, found = -math.inf, None
        for candidate in sorted(primary):
            value = similarity[expert][candidate]
            if value > best:  # false for NaN
                best, found = value, candidate
        refused = found is None or (threshold > 0 and best < threshold)
        return expert if refused else found

    routed = [
        [target(e) if votes and 0 <= e < experts else e for e in row]
        for row, votes in zip(ids, case.decode_rows.tolist(), strict=True)
    ]
    after = [row for row, votes in zip(routed, case.decode_rows.tolist(), strict=True) if votes]
    used = [len({e for row in rows for e in row if 0 <= e < experts}) for rows in (voters, after)]
    return routed, used


@st.composite
def cases(draw: st.DrawFn, most_experts: int = 70, most_rows: int = 40) -> Case:
    """Ties, NaN, dropped slots, padding, protection and every strength."""
    experts = draw(st.integers(1, most_experts))
    slots = draw(st.integers(1, min(experts, 10)))
    rows = draw(st.integers(1, most_rows))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    ids = torch.rand(rows, experts, generator=generator).argsort(dim=1)[:, :slots].contiguous()
    ids[torch.rand(rows, slots, generator=generator) < draw(st.sampled_from([0.0, 0.2]))] = experts
    levels = draw(st.sampled_from([1, 3, 1000]))  # few make ties
    similarity = (torch.rand(experts, experts, generator=generator) * levels).round() / levels
    holes = draw(st.sampled_from([0.0, 0.3, 1.0]))
    similarity[torch.rand(experts, experts, generator=generator) < holes] = torch.nan
    return Case(
        ids,
        similarity,
        torch.rand(experts, generator=generator) < draw(st.sampled_from([0.0, 0.2])),
        torch.rand(rows, generator=generator) < draw(st.sampled_from([0.0, 0.7, 1.0])),
        draw(st.integers(-1, slots + 1)),
        draw(st.sampled_from([0.0, 0.5, 1.0, 1.5])),
    )
