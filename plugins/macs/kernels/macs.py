"""``MacsCapacity`` by kernels: a fixed row of launches, none of which the host waits for."""

from __future__ import annotations

import torch
from torch import Tensor

from ..reference import Limited
from .admission import admit
from .candidates import find_candidates
from .entropy import row_entropy
from .finish import finish
from .preferences import find_preferences
from .ranks import order_candidates, order_queue
from .rerouting import reroute
from .weights import weigh
from .workspace import Workspace

LAUNCHES = (
    find_candidates,
    order_candidates,
    admit,
    order_queue,
    find_preferences,
    reroute,
    finish,
)


def prepare(
    hidden: Tensor,
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual_rows: Tensor,
    groups: Tensor,
    settings: Tensor,
    similarity: Tensor | None = None,
) -> Workspace:
    """The workspace of one call, entropies included; ``R >= 1``.

    Args: as of :func:`~edgevlm.plugins.macs.reference.macs_capacity`.
    """
    rows, visual_rows = rows.contiguous(), visual_rows.contiguous()
    return Workspace(
        probabilities=probabilities.contiguous(),
        ids=expert_ids.contiguous(),
        weights=expert_weights.contiguous(),
        rows=rows.view(torch.uint8),
        visual=visual_rows.view(torch.uint8),
        groups=groups.contiguous(),
        settings=settings.contiguous(),
        similarity=None if similarity is None else similarity.contiguous(),
        entropy=row_entropy(hidden.contiguous(), rows, visual_rows),
    )


def kernel_macs(work: Workspace) -> Limited:
    """What :func:`~edgevlm.plugins.macs.reference.macs_capacity` does to what was prepared.

    A CUDA graph may hold both calls: it then serves any routing, rows and settings. Of a row whose
    slots name an expert twice, only the last of these slots is controlled.
    """
    weigh(work)
    for launch in LAUNCHES:
        launch(work)
    return Limited(work.moved, work.new_weights, work.report)
