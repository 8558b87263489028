"""Evaluating with experts on several ranks: one leads, the others do the same work with it.

The leader alone knows what is left to do and keeps answers. Before it answers a unit it tells the
others, as their experts are needed; what they answer is the same and is forgotten.
"""

from __future__ import annotations

import torch.distributed as dist

from .runner import Runner, RunOptions, Unit

_LEADER = 0


def announce(unit: Unit | None) -> None:
    """Tell the other ranks what the leader answers next; ``None``: nothing more."""
    dist.broadcast_object_list([unit], src=_LEADER)


def follow(options: RunOptions) -> None:
    """Answer what the leader does until it is done; what every rank but the leader runs.

    Raises:
        EdgeVLMError: see :meth:`Runner.answers`.
    """
    runner = Runner(options)
    while (unit := _next()) is not None:
        for _ in runner.answers(unit):
            pass


def _next() -> Unit | None:
    received: list[Unit | None] = [None]
    dist.broadcast_object_list(received, src=_LEADER)
    return received[0]
