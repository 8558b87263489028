"""``MoeExperts`` as the torch backend runs it."""

from __future__ import annotations

from torch import Tensor

from .kernels import usable
from .reference import moe_experts


def grouped_experts(
    hidden: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    gate_up: Tensor,
    down: Tensor,
    active: int | None = None,
    add_to: Tensor | None = None,
) -> Tensor:
    """:func:`~edgevlm.plugins.experts.reference.moe_experts`, by kernels where they are usable.

    With kernels, a CUDA graph can capture the call; it then holds for any routing of as many rows.

    Args:
        active: about how many experts are in use, where that is known to be fewer than rows could
            use: they then have more rows each. A matter of speed alone.
        add_to: ``[R,H]`` contiguous, what the result is added to, in place; it is then returned.
    """
    if not len(hidden) or not usable(hidden):
        result = moe_experts(hidden, expert_ids, expert_weights, gate_up, down)
        return result if add_to is None else add_to.add_(result)
    from .kernels.experts import kernel_experts
    from .kernels.tiling import choose_tiling

    tiling = choose_tiling(expert_ids.numel(), active or len(gate_up), hidden.dtype)
    return kernel_experts(
        hidden.contiguous(),
        expert_ids.contiguous(),
        expert_weights.contiguous(),
        gate_up.contiguous(),
        down.contiguous(),
        tiling,
        add_to,
    )
