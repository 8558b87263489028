"""How a runtime's experts are controlled, from the user's settings and calibration files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core import UsageError
from ..models import Checkpoint
from ..plugins.experts.truncation import TruncationConfig
from ..plugins.macs.config import MacsConfig
from ..plugins.macs.counts_file import load_counts
from ..plugins.macs.report import MacsReport
from ..plugins.sere.config import SereConfig
from ..plugins.sere.table_file import load_table
from .engines.routing import MacsControl, RoutingControl, RoutingTotals, SereControl


@dataclass(frozen=True)
class ExpertRoutingConfig:
    """Control of a mixture of experts; ``None`` leaves its part alone.

    Attributes:
        truncation: fewer experts per token, to compare with; the target torch only.
        sere: re-routing at decode; needs ``sere_file``.
        macs: capacity at prefill; without ``macs_file`` all experts count as shared.
        sere_file, macs_file: written by ``edgevlm calibrate`` for the runtime's checkpoint.

    Raises:
        UsageError: a file is missing for what is asked.
    """

    sere: SereConfig | None = None
    macs: MacsConfig | None = None
    sere_file: Path | None = None
    macs_file: Path | None = None
    truncation: TruncationConfig | None = None

    def __post_init__(self) -> None:
        by_expert = self.macs is not None and self.macs.similarity == "expert"
        if self.sere_file is None and (self.sere is not None or by_expert):
            raise UsageError(
                "re-routing by similarity needs a calibration file of the checkpoint: make one with"
                " `edgevlm calibrate sere` and pass it with --sereFile"
            )

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any]) -> ExpertRoutingConfig:
        """Read a JSON object: ``sere`` and ``macs`` with their settings, and the two files.

        Raises:
            UsageError: an unknown key, or a value is wrong.
        """
        legal = [field.name for field in fields(cls)]
        if not isinstance(raw, Mapping) or not set(raw) <= set(legal):
            raise UsageError(f"expert routing is an object of {', '.join(legal)}, got {raw!r}")
        parts = {name: value for name, value in raw.items() if value is not None}
        files = {n: Path(str(parts[n])) for n in ("sere_file", "macs_file") if n in parts}
        return cls(
            sere=SereConfig.from_mapping(parts["sere"]) if "sere" in parts else None,
            macs=MacsConfig.from_mapping(parts["macs"], MacsConfig()) if "macs" in parts else None,
            truncation=_truncation(parts["truncation"]) if "truncation" in parts else None,
            **files,
        )

    def load(self, checkpoint: Checkpoint) -> RoutingControl:
        """Read the files and derive protected experts and groups.

        Raises:
            UsageError: a file cannot be read or belongs to another checkpoint, or the model has no
                experts.
        """
        moe, layers = checkpoint.config.text.moe, checkpoint.config.text.moe_layers
        if moe is None:
            if self.sere is None and self.macs is None and self.truncation is None:
                return RoutingControl()
            raise UsageError(
                f"{checkpoint.directory}: has no experts, so their routing cannot be controlled"
            )
        sere = macs = similarity = None
        if self.sere_file is not None and (self.sere is not None or self.macs is not None):
            table = load_table(self.sere_file, checkpoint)
            similarity = torch.stack([table.similarity[layer] for layer in layers])
            if self.sere is not None:
                protected = table.protected(self.sere)
                rows = torch.stack([protected[layer] for layer in layers])
                sere = SereControl(self.sere, similarity, rows)
        if self.macs is not None:
            groups = torch.zeros(len(layers), moe.num_experts)
            if self.macs_file is not None:
                groups = load_counts(self.macs_file, checkpoint).groups(self.macs.group_threshold)
            by_expert = self.macs.similarity == "expert"
            macs = MacsControl(self.macs, groups, similarity if by_expert else None)
        return RoutingControl(sere, macs, self.truncation)


def _truncation(raw: Any) -> TruncationConfig:
    if not isinstance(raw, Mapping) or not {"top_k"} <= set(raw) <= {"top_k", "prompts"}:
        raise UsageError(f"truncation is an object of top_k and prompts, got {raw!r}")
    return TruncationConfig(**raw)


def routing_profile(totals: RoutingTotals, top_k: int, experts: int) -> dict[str, Any]:
    """What control did, as a JSON-able dictionary; empty parts for what did not act."""
    profile: dict[str, Any] = {}
    if totals.steps:
        before, after = (totals.active / totals.steps).unbind(1)  # [L] each
        profile["sere"] = {
            "decode_steps": totals.steps,
            "active_experts_before": _numbers(before),
            "active_experts_after": _numbers(after),
            "mean_active_before": float(before.mean()),
            "mean_active_after": float(after.mean()),
        }
    if totals.prompts:
        means = totals.macs / totals.prompts  # [L,M]
        profile["macs"] = {
            "prompts": totals.prompts,
            "layers": [MacsReport.read(row).summary(top_k, experts) for row in means],
        }
    return profile


def _numbers(values: Tensor) -> list[float]:
    return [round(value, 3) for value in values.tolist()]
