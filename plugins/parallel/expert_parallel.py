"""One MoE layer over several ranks.

Attention and router are replicated: every rank goes through every step with the same rows, so any
flow of requests works, and for the experts each rank speaks for its own part of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor

from ...models import Routing
from ..experts import grouped_experts
from ..experts.kernels import usable
from .exchange import dispatch
from .placement import Placement

Limit = Callable[[Tensor, Routing, slice], Routing]
"""``(hidden [r,H], routing, rows) -> routing``: what a rank does to the routing of its own rows."""

Product = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class ExpertParallel:
    """Splits the experts of a layer over the ranks of ``group``; all of them call it together.

    Args:
        experts: of a layer, over all ranks.
        group: the default one if ``None``.
        product: the form of ``MoeExperts`` to compute with.

    Raises:
        UsageError: there are more ranks than experts.
    """

    def __init__(
        self,
        experts: int,
        group: dist.ProcessGroup | None = None,
        product: Product = grouped_experts,
    ) -> None:
        self.rank = dist.get_rank(group)
        self.placement = Placement(experts, dist.get_world_size(group))
        self._group, self._product = group, product

    def local(self, weights: Tensor) -> Tensor:
        """This rank's part of expert weights ``[N,...]``, a view."""
        return weights[self.placement.local(self.rank)]

    def layer(
        self,
        hidden: Tensor,
        routing: Routing,
        gate_up: Tensor,
        down: Tensor,
        limit: Limit | None = None,
    ) -> Tensor:
        """The weighted sum ``[R,H]`` of each row's experts, on every rank.

        Args:
            hidden: ``[R,H]``, the same on every rank, as is ``routing``.
            gate_up, down: this rank's experts, ``[n,H,2I]`` and ``[n,I,H]``.
            limit: applied to each rank's rows where they are, before anything is sent, so that
                the limits need no word from other ranks.
        """
        mine = self.placement.rows(self.rank, len(hidden))
        rows = hidden[mine]
        own = replace(
            routing,
            probabilities=routing.probabilities[mine],
            ids=routing.ids[mine],
            weights=routing.weights[mine],
        )
        if limit is not None:
            own = limit(rows, own, mine)
        return self._whole(self.rows(rows, own, gate_up, down), len(hidden))

    def rows(self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor) -> Tensor:
        """The same for this rank's rows ``[r,H]`` alone.

        A row's experts are added in fp32, whoever computed them: by the kernel, where it is usable,
        in the order of the slots; else in ascending order of their ids, as the reference of
        ``MoeExperts`` does.
        """
        received, ids, exchange = dispatch(
            hidden, routing.ids, self.placement, self.rank, self._group
        )
        ones = torch.ones(len(ids), 1, dtype=hidden.dtype, device=hidden.device)
        results = received
        if len(received):
            results = self._product(received, ids[:, None], ones, gate_up, down)
        by_slot = exchange.back(results)  # [r*k,H]
        if len(hidden) and usable(hidden):
            from ..experts.kernels.combine import combine

            ids, weights = routing.ids.contiguous(), routing.weights.contiguous()
            return combine(by_slot, ids, self.placement.experts, weights=weights)
        by_slot = by_slot.view(*routing.ids.shape, hidden.shape[1])  # [r,k,H]
        order = routing.ids.argsort(dim=1, stable=True)
        total = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        row = torch.arange(len(hidden), device=hidden.device)
        for slot in order.unbind(1):
            total += by_slot[row, slot].float() * routing.weights[row, slot].float()[:, None]
        return total.to(hidden.dtype)

    def _whole(self, part_rows: Tensor, count: int) -> Tensor:
        """All ranks' parts, ``[count,H]``."""
        parts = [self.placement.rows(rank, count) for rank in range(self.placement.ranks)]
        sizes = [part.stop - part.start for part in parts]
        padded = part_rows.new_zeros(max(sizes), part_rows.shape[1])
        padded[: len(part_rows)] = part_rows
        gathered = [torch.empty_like(padded) for _ in parts]
        dist.all_gather(gathered, padded, group=self._group)
        return torch.cat([piece[:size] for piece, size in zip(gathered, sizes, strict=True)])
