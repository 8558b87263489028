"""``MacsCapacity`` and its baselines as the torch backend runs them."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ...models import Routing
from .baselines import expanded_drop
from .config import MacsConfig
from .kernels import usable
from .reference import Limited, macs_capacity


def limited_experts(
    hidden: Tensor,
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual_rows: Tensor,
    groups: Tensor,
    settings: Tensor,
    similarity: Tensor | None = None,
) -> Limited:
    """:func:`~edgevlm.plugins.macs.reference.macs_capacity`, by kernels where they are usable.

    With kernels, a CUDA graph can capture the call; it then holds for any routing and settings.
    """
    arguments = (
        hidden,
        probabilities,
        expert_ids,
        expert_weights,
        rows,
        visual_rows,
        groups,
        settings,
        similarity,
    )
    if not len(hidden) or not usable(hidden):
        return macs_capacity(*arguments)
    from .kernels.macs import kernel_macs, prepare

    return kernel_macs(prepare(*arguments))


def limited_routing(
    config: MacsConfig,
    hidden: Tensor,
    routing: Routing,
    rows: Tensor,
    visual_rows: Tensor,
    groups: Tensor,
    similarity: Tensor | None = None,
    settings: Tensor | None = None,
) -> tuple[Routing, Tensor]:
    """Any method of ``config`` on a router's decision; also ``expanded_drop``, which has more slots
    afterwards and so is no form of ``MacsCapacity``.

    Args:
        settings: those of ``config``, where they are on the device already.

    Returns:
        the routing, and the report ``[len(ENTRIES)]`` fp32.
    """
    choice = (routing.probabilities, routing.ids, routing.weights, rows, visual_rows)
    if config.method == "expanded_drop":
        found = expanded_drop(config, *choice)
    else:
        settings = config.settings(hidden.device) if settings is None else settings
        found = limited_experts(hidden, *choice, groups, settings, similarity)
    return replace(routing, ids=found.expert_ids, weights=found.expert_weights), found.report
