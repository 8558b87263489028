"""Dropping tokens from a prompt: one vector of kept rows cuts all that has a row per token."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ..core import PipelineIO
from . import kernels
from .layout import Layout
from .merging import Merger
from .selection import MergeWeights


def compact(
    io: PipelineIO,
    kept: Tensor,
    layout: Layout,
    merge: MergeWeights | None = None,
    unverified: Tensor | None = None,
) -> PipelineIO:
    """Return the prompt of which only ``kept`` visual rows are left, and all text.

    The kept tokens keep their mRoPE positions and ``next_position`` stays, so generation goes on
    as if nothing were missing; only the rows, and with them the KV slots, close up.

    Args:
        kept: ``[k]`` int64 on the prompt's device, ascending visual rows, ``layout.counts[i]`` of
            them in span ``i``. Not checked.
        merge: what replaces the contents of some of them.
        unverified: ``[T]`` fp32 L2 norms of embeddings that may hold NaN or Inf. Rows that do come
            out as zeros; needs the kernels.
    """
    if kernels.usable(io.embeds):
        from .kernels.gather import gather
        from .kernels.places import place_table

        table = place_table(layout, io.embeds.device)
        short = gather(io, kept, layout, table, unverified)
    else:
        short = indexed(io, kept, layout)
    if merge is not None:
        merged = Merger(merge, layout.surviving_rows(kept))
        for fresh, whole in (
            (short.embeds, io.embeds),
            *zip(short.deepstack, io.deepstack, strict=True),
        ):
            merged.write(fresh, whole)
    return short


def indexed(io: PipelineIO, kept: Tensor, layout: Layout) -> PipelineIO:
    """Compaction by torch's indexing, one operator per tensor."""
    rows = layout.surviving_rows(kept)  # [K]
    return replace(
        io,
        token_ids=io.token_ids[rows],
        embeds=io.embeds[rows],
        deepstack=io.deepstack[:, rows],
        positions=io.positions[:, rows],
        spans=layout.closed_spans,
        importance=None if io.importance is None else io.importance[rows],
    )
