"""What routers and backends may ask of a row's slots beside re-routing itself."""

from __future__ import annotations

from torch import Tensor


def sort_slots(expert_ids: Tensor, expert_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Order each row's slots by descending weight, equal ones by their place.

    Re-routing takes the first slots for the strongest. Routers that select without sorting (some
    with sigmoid scores do) need this first.

    Args:
        expert_ids, expert_weights: ``[R,k]``.
    """
    weights, order = expert_weights.sort(dim=1, descending=True, stable=True)
    return expert_ids.gather(1, order), weights


def merge_duplicates(
    expert_ids: Tensor, expert_weights: Tensor, experts: int
) -> tuple[Tensor, Tensor]:
    """Let each row name an expert once: its first slot gets the weights of all, others are dropped.

    For backends that forbid repeats in a row. The result of the experts is the same up to
    rounding, for two slots of one expert add up anyway.

    Args:
        expert_ids: ``[R,k]``; the sentinel ``experts`` may repeat.
        expert_weights: ``[R,k]``; sums are taken in fp32.

    Returns:
        ids and weights; a dropped slot has the id ``experts`` and the weight 0.
    """
    same = expert_ids[:, :, None] == expert_ids[:, None, :]  # [R,k,k]
    repeated = same.tril(diagonal=-1).any(dim=2)  # [R,k]: an earlier slot has the same expert
    dropped = repeated | (expert_ids == experts)
    sums = (same * expert_weights.float()[:, None, :]).sum(dim=2)
    return expert_ids.masked_fill(dropped, experts), sums.masked_fill(dropped, 0).to(
        expert_weights.dtype
    )
