"""``MoeExperts`` by kernels."""

from __future__ import annotations

from torch import Tensor

from .combine import combine
from .down import down_product
from .gate_up import gate_up_product
from .plan import make_plan
from .tiling import Tiling, choose_tiling


def kernel_experts(
    hidden: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    gate_up: Tensor,
    down: Tensor,
    tiling: Tiling | None = None,
    add_to: Tensor | None = None,
) -> Tensor:
    """See :func:`~edgevlm.plugins.experts.reference.moe_experts`; everything contiguous.

    Sums within a product are in fp32, as is the sum over slots; the product of gate and up, and
    each slot's weighted result, are rounded to the storage type. The result of a row depends
    neither on the rows beside it, up to the choice of tiles, nor on chance.

    Args:
        tiling: chosen by the number of rows if ``None``.
        add_to: ``[R,H]``, what the result is added to before it is rounded; it is then returned.
    """
    experts, top_k = gate_up.shape[0], expert_ids.shape[1]
    if tiling is None:
        tiling = choose_tiling(expert_ids.numel(), experts, hidden.dtype)
    plan = make_plan(expert_ids, experts, tiling.rows)
    inner = gate_up_product(hidden, gate_up, plan, top_k, tiling.gate_up)  # [S,I]
    parts = down_product(inner, down, expert_weights, plan, tiling.down)  # [S,H]
    return combine(parts, expert_ids, experts, add_to)
