"""CUDA graphs of steps that come again: captured on second use, the longest unused ones dropped."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

Step = Callable[[], Tensor]
Record = Callable[[Step], Step]
"""Captures a step without running it; what it returns runs it."""


class GraphCache:
    """Runs steps, each under a key that says all that decides which operations it consists of.

    A step reads its inputs from buffers that stay where they are. It runs as it is the first time,
    which also compiles and loads all it needs; is captured the second time; and is replayed from
    then on. Where a capture fails, for want of memory say, that is said once, and steps that are
    not captured yet run as they are for good.

    Args:
        most: graphs to keep; 0 for none.
        record: how a step is captured, see :func:`cuda_recorder`.
    """

    def __init__(self, most: int, record: Record) -> None:
        self._most, self._record = most, record
        self._graphs: OrderedDict[Hashable, Step] = OrderedDict()
        self._seen: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._graphs

    def run(self, key: Hashable, step: Step) -> Tensor:
        """The result of ``step``, in memory that no later step overwrites."""
        if key in self._graphs:
            self._graphs.move_to_end(key)
        elif key not in self._seen or not self._capture(key, step):
            self._seen.add(key)
            return step()
        return self._graphs[key]()

    def _capture(self, key: Hashable, step: Step) -> bool:
        if not self._most:
            return False
        while len(self._graphs) >= self._most:
            self._graphs.popitem(last=False)
        try:
            self._graphs[key] = self._record(step)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            self._most = 0
            logging.getLogger(__name__).warning(
                "no CUDA graph could be captured, so further steps are launched one kernel at a"
                " time, which is slower: %s: %s",
                type(error).__name__,
                str(error).splitlines()[0],
            )
            return False
        return True


def cuda_recorder(device: torch.device) -> Record:
    """Capture into CUDA graphs that share one memory pool; they must be replayed one by one."""
    pool: list[Any] = []  # made with the first graph

    def record(step: Step) -> Step:
        with torch.cuda.device(device):
            if not pool:
                pool.append(torch.cuda.graph_pool_handle())
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool[0], capture_error_mode="thread_local"):
                output = step()

        def replay() -> Tensor:
            graph.replay()
            return output.clone()

        return replay

    return record
