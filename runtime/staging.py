"""Prefill as pruning wants it: in one piece, or with pruning after the first decoder layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..core import PipelineIO, RequestError
from ..pruners import EarlyStates, PruneReport, VisualTokenPruner
from .engines import LLMEngine, StagedPrefill


def begin(
    engine: LLMEngine, slot: int, io: PipelineIO, pruner: VisualTokenPruner
) -> EarlyStates | None:
    """The prompt behind the layers that ``pruner`` wants to see the results of.

    ``None`` if it wants none, the engine cannot stop there, or the whole prompt does not fit it.
    """
    layers = pruner.wanted_layers(io)
    fits = len(io) <= engine.limits.max_input_len
    if not layers or not fits or not isinstance(engine, StagedPrefill):
        return None
    with _naming_memory(io):
        return engine.begin(slot, io, layers)


def finish(
    engine: LLMEngine, slot: int, io: PipelineIO, early: EarlyStates | None, report: PruneReport
) -> Tensor:
    """Logits ``[V]`` of ``io``, what ``pruner.prune`` made of the prompt or of ``early``."""
    with _naming_memory(io):
        if early is None:
            return engine.prefill(slot, io)
        assert isinstance(engine, StagedPrefill)  # begin() has made sure
        rows = early.surviving_rows(io, report.kept)
        return engine.finish(slot, io, early.layers, rows)


@contextmanager
def _naming_memory(io: PipelineIO) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise RequestError(
            f"out of device memory while prefilling {len(io)} tokens; use smaller images,"
            " a higher reduction_ratio or an engine with a smaller max_kv_len x max_batch"
        ) from None
