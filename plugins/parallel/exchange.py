"""Rows to the ranks that hold their experts, and results back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from .placement import Placement


@dataclass(frozen=True)
class Exchange:
    """One dispatch, and what it takes to undo it.

    Attributes:
        order: ``[n]`` int64, the slots (``row * k + j``) sent, by expert and then ascending.
        sent, received: pairs to and from each rank.
        slots: how many slots there were, dropped ones included.
    """

    order: Tensor
    sent: list[int]
    received: list[int]
    slots: int
    group: dist.ProcessGroup | None

    def back(self, results: Tensor) -> Tensor:
        """Results ``[m,H]`` of received pairs to whom they are for: ``[slots,H]``, 0 if dropped."""
        returned = results.new_empty(len(self.order), results.shape[1])
        dist.all_to_all_single(returned, results, self.sent, self.received, group=self.group)
        by_slot = results.new_zeros(self.slots, results.shape[1])
        by_slot[self.order] = returned
        return by_slot


def dispatch(
    hidden: Tensor,
    expert_ids: Tensor,
    placement: Placement,
    rank: int,
    group: dist.ProcessGroup | None,
) -> tuple[Tensor, Tensor, Exchange]:
    """Send each row to the ranks of its experts, once per slot.

    The sizes of what is sent are values, so the host waits for the device once.

    Args:
        hidden: ``[r,H]``, this rank's rows.
        expert_ids: ``[r,k]`` int64; N marks a dropped slot, which is not sent.

    Returns:
        received rows ``[m,H]``, the local id ``[m]`` int64 of the expert each is for, and the way
        back. Rows come by source rank, then expert, then row: for any expert that is the order of
        the rows of all ranks, so its product has the same shape and bits as on one rank.
    """
    ids = expert_ids.flatten()
    # What bincount does, which waits for the device besides.
    counts = ids.new_zeros(placement.experts + 1).scatter_add_(0, ids, torch.ones_like(ids))
    counts = counts[: placement.experts].contiguous()  # [N]
    local = placement.sizes[rank]
    arriving = counts.new_empty(placement.ranks * local)
    dist.all_to_all_single(
        arriving, counts, [local] * placement.ranks, placement.sizes, group=group
    )
    known = torch.cat((counts, arriving)).cpu()
    sent = [int(part.sum()) for part in torch.split(known[: len(counts)], placement.sizes)]
    received = known[len(counts) :].view(placement.ranks, local).sum(1).tolist()
    order = ids.argsort(stable=True)[: sum(sent)]  # N, which is not sent, is the largest id
    rows = hidden[order // expert_ids.shape[1]]
    found = rows.new_empty(sum(received), hidden.shape[1])
    dist.all_to_all_single(found, rows, received, sent, group=group)
    number = torch.arange(local, device=ids.device).repeat(placement.ranks)
    local_ids = number.repeat_interleave(arriving, output_size=len(found))
    return found, local_ids, Exchange(order, sent, received, len(ids), group)
