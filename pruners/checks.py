"""Checking what a pruner selected, before anything is dropped because of it."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import PipelineIO
from .layout import Layout
from .selection import MergeWeights, Selection


def checked_selection(io: PipelineIO, answer: object) -> tuple[Selection, Layout]:
    """Return ``answer`` sorted and on the prompt's device, and the layout that follows from it.

    Waits for the device.

    Raises:
        ValueError: it is no selection of distinct visual rows with one of each span at least, or
            what it merges are no visual rows with finite weights.
    """
    selection = answer if isinstance(answer, Selection) else Selection(answer)  # type: ignore[arg-type]
    rows = _row_numbers(io, selection.kept, "row numbers").sort().values  # [k]
    repeated = rows[1:][rows.diff() == 0]
    if repeated.numel():
        raise ValueError(f"row {int(repeated[0])} is selected more than once")
    merge = selection.merge
    if merge is not None:
        merge = _checked_merge(io, rows, merge)
    layout = Layout.of(io, _counts(io, rows))
    return Selection(rows.to(io.embeds.device), merge), layout


def _row_numbers(io: PipelineIO, given: object, what: str) -> Tensor:
    """``given`` as ``[m]`` int64 on the CPU, all of them visual rows."""
    if not isinstance(given, Tensor):
        raise ValueError(f"expected a tensor of {what}, got {type(given).__name__}")
    if given.dtype not in (torch.int32, torch.int64) or given.dim() != 1:
        raise ValueError(
            f"expected {what} as a 1-D tensor of int64 or int32, "
            f"got {given.dtype} of shape {tuple(given.shape)}"
        )
    rows = given.to("cpu", torch.int64)
    outside = rows[(rows < 0) | (rows >= len(io))]
    if outside.numel():
        raise ValueError(f"row {int(outside[0])} is outside the prompt's 0..{len(io) - 1}")
    text = rows[~_visual_mask(io)[rows]]
    if text.numel():
        raise ValueError(f"row {int(text[0])} is a text token; select among visual_positions only")
    return rows


def _checked_merge(io: PipelineIO, kept: Tensor, merge: object) -> MergeWeights:
    if not isinstance(merge, MergeWeights):
        raise ValueError(f"merge must be MergeWeights, got {type(merge).__name__}")
    rows = _row_numbers(io, merge.rows, "merged rows")  # [m]
    sources = _row_numbers(io, merge.sources, "merge sources")  # [m]
    weights = merge.weights
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() != 1:
        raise ValueError("expected merge weights as a 1-D tensor of fp32")
    if not len(rows) == len(sources) == len(weights):
        counts = f"{len(rows)} rows, {len(sources)} sources and {len(weights)} weights"
        raise ValueError(f"a merge needs as many rows as sources and weights, got {counts}")
    dropped = rows[~torch.isin(rows, kept)]
    if dropped.numel():
        raise ValueError(f"row {int(dropped[0])} is merged into but not kept")
    if not bool(weights.isfinite().all()):
        raise ValueError("merge weights must be finite")
    device = io.embeds.device
    return MergeWeights(rows.to(device), sources.to(device), weights.to(device, torch.float32))


def _counts(io: PipelineIO, rows: Tensor) -> tuple[int, ...]:
    """How many of the ascending ``rows`` lie in each span."""
    edges = torch.tensor([(span.start, span.end) for span in io.spans], dtype=torch.int64)  # [S,2]
    before = torch.searchsorted(rows, edges)  # [S,2] rows in front of each edge
    counts: tuple[int, ...] = tuple(before.diff(dim=1).flatten().tolist())
    for span, count in zip(io.spans, counts, strict=True):
        if not count:
            raise ValueError(f"no token of the visual span [{span.start}, {span.end}) is kept")
    return counts


def _visual_mask(io: PipelineIO) -> Tensor:
    mask = torch.zeros(len(io), dtype=torch.bool)  # [T]
    for span in io.spans:
        mask[span.start : span.end] = True
    return mask
