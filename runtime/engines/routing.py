"""Control over where a mixture of experts sends its rows, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ...core import PipelineIO, UsageError
from ...plugins.experts.truncation import TruncationConfig
from ...plugins.macs.config import MacsConfig
from ...plugins.sere.config import SereConfig


@dataclass(frozen=True)
class SereControl:
    """Re-routing of decode rows; the tables' layers are those with experts, in order."""

    config: SereConfig
    similarity: Tensor  # [L,N,N] fp32
    protected: Tensor  # [L,N] bool


@dataclass(frozen=True)
class MacsControl:
    """Limits on what experts take of a prompt.

    ``similarity``, as SERE's, is what the option ``similarity: expert`` re-routes by.
    """

    config: MacsConfig
    groups: Tensor  # [L,N] fp32: +1 visual expert, -1 text expert, 0 shared
    similarity: Tensor | None = None  # [L,N,N] fp32


@dataclass(frozen=True)
class RoutingControl:
    """What an engine does to its router's choices; without any, nothing."""

    sere: SereControl | None = None
    macs: MacsControl | None = None
    truncation: TruncationConfig | None = None

    def check(self, layers: int, experts: int) -> None:
        """Refuse tables made for another model.

        Args:
            layers: those with experts.

        Raises:
            UsageError: the model has none, or a table's shape differs.
        """
        if self.truncation is not None and not layers:
            raise UsageError("truncation controls a mixture of experts; this model is dense")
        tables = {
            "sere": None if self.sere is None else self.sere.protected,
            "macs": None if self.macs is None else self.macs.groups,
        }
        for name, table in tables.items():
            if table is None:
                continue
            shape = tuple(table.shape)
            if not layers:
                raise UsageError(f"{name} controls a mixture of experts; this model is dense")
            if shape != (layers, experts):
                raise UsageError(
                    f"the {name} calibration is for {shape[0]} layers of {shape[1]} experts, the"
                    f" model has {layers} of {experts}; calibrate this checkpoint with `edgevlm"
                    f" calibrate {name}`"
                )


@dataclass(frozen=True)
class RoutingTotals:
    """Sums over everything that was controlled, by layer with experts.

    ``active`` has how many distinct experts the router chose in decode steps and how many were
    read; ``macs`` the entries of :class:`~edgevlm.plugins.macs.report.MacsReport` over prompts.
    """

    steps: int
    active: Tensor  # [L,2] int64
    prompts: int
    macs: Tensor  # [L,M] fp32

    @classmethod
    def of(cls, steps: int, active: Tensor, prompts: int, macs: Tensor) -> RoutingTotals:
        """Sums as they are now, which may go on growing; waits for their device."""
        active, macs = (sums.to("cpu", copy=True) for sums in (active, macs))
        return cls(steps, active, prompts, macs)

    def __sub__(self, earlier: RoutingTotals) -> RoutingTotals:
        return RoutingTotals(
            self.steps - earlier.steps,
            self.active - earlier.active,
            self.prompts - earlier.prompts,
            self.macs - earlier.macs,
        )


@runtime_checkable
class ControlledExperts(Protocol):
    """What an :class:`~edgevlm.runtime.engines.base.LLMEngine` with experts offers besides."""

    def control_experts(self, control: RoutingControl) -> None:
        """Route by ``control`` from the next step on.

        Raises:
            UsageError: the model has no experts, the control is made for another number of layers
                or experts, or the engine was built without what it needs.
        """

    def routing_totals(self) -> RoutingTotals:
        """What control did so far; waits for the device."""


def visual_rows(io: PipelineIO) -> Tensor:
    """``[T]`` bool: which rows of a prompt are visual."""
    rows = torch.zeros(len(io), dtype=torch.bool, device=io.embeds.device)
    for span in io.spans:
        rows[span.start : span.end] = True
    return rows
