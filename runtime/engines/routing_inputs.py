"""What an exported graph with routing control is fed, and what it reports."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...core import PipelineIO, UsageError
from ...core.manifest import TensorSpec
from ...models import TextConfig
from ...plugins.macs.config import require_onnx
from ...plugins.macs.report import ENTRIES
from .routing import RoutingControl, RoutingTotals, visual_rows

_DECODING, _PROMPT, _VISUAL = "decode_rows", "prompt_rows", "visual_rows"
_ROWS = (_DECODING, _PROMPT, _VISUAL)


class RoutingInputs:
    """The control tensors of one engine, by the names of :mod:`edgevlm.plugins.controls`.

    Tensors of layers stay where they are; without control they are such that nothing changes.

    Args:
        inputs: all of the engine's, of which it takes what it knows.
    """

    def __init__(
        self, inputs: Sequence[TensorSpec], config: TextConfig, device: torch.device
    ) -> None:
        self._layers = config.moe_layers
        self._experts = config.moe.num_experts if config.moe else 0
        self._device = device
        self._control = RoutingControl()
        self._rows = [spec.name for spec in inputs if spec.name in _ROWS]
        names = ("sere_", "macs_")
        self.fixed = {
            spec.name: torch.zeros(
                [int(size) for size in spec.shape], dtype=getattr(torch, spec.dtype), device=device
            )
            for spec in inputs
            if spec.name.startswith(names)
        }
        self.reports: dict[str, Tensor] = {}
        count = len(self._layers)
        if "sere_top_k" in self.fixed:
            self.reports |= self._report_of("sere_active", 2, torch.int64)
        if "macs_settings" in self.fixed:
            self.reports |= self._report_of("macs_report", len(ENTRIES), torch.float32)
        self._active = torch.zeros(count, 2, dtype=torch.int64, device=device)
        self._macs = torch.zeros(count, len(ENTRIES), device=device)
        self._steps = self._prompts = 0

    def control(self, control: RoutingControl) -> None:
        """See :meth:`~edgevlm.runtime.engines.routing.ControlledExperts.control_experts`."""
        control.check(len(self._layers), self._experts)
        sere, macs = control.sere, control.macs
        for name, wanted, key in (("sere", sere, "sere_top_k"), ("macs", macs, "macs_settings")):
            if wanted is not None and key not in self.fixed:
                raise UsageError(
                    f"the engine was built without {name}; rebuild it with --routing {name}, or"
                    " use an engine built for the target torch"
                )
        if control.truncation is not None:
            raise UsageError("truncation is an option of the target torch only")
        if sere is not None and sere.config.merge_duplicates:
            raise UsageError("merge_duplicates is an option of the target torch only")
        if macs is not None:
            require_onnx(macs.config)
        for place, layer in enumerate(self._layers):
            if sere is not None:
                self.fixed[f"sere_similarity_{layer}"].copy_(sere.similarity[place])
                self.fixed[f"sere_protected_{layer}"].copy_(sere.protected[place])
            if macs is not None:
                self.fixed[f"macs_groups_{layer}"].copy_(macs.groups[place])
        if "sere_top_k" in self.fixed:
            self.fixed["sere_top_k"].zero_()
        if "macs_settings" in self.fixed:
            settings = self.fixed["macs_settings"]
            settings.copy_(macs.config.settings()) if macs else settings.zero_()
        self._control = control

    def decode(self, batch: int, generated: int) -> dict[str, Tensor]:
        """The row inputs ``[B,1]`` of a decode step, whose strength is set."""
        if self._control.sere is not None:
            top_k, threshold = self._control.sere.config.at(batch, generated)
            self.fixed["sere_top_k"].fill_(top_k)
            self.fixed["sere_threshold"].fill_(threshold)
        return {
            name: torch.full((batch, 1), name == _DECODING, device=self._device)
            for name in self._rows
        }

    def prompt(self, io: PipelineIO) -> dict[str, Tensor]:
        """The row inputs ``[1,S]`` of a prompt."""
        if not self._rows:
            return {}
        visual = visual_rows(io)
        rows = {
            _DECODING: torch.zeros_like(visual),
            _PROMPT: torch.ones_like(visual),
            _VISUAL: visual,
        }
        return {name: rows[name][None] for name in self._rows}

    def count_decode(self) -> None:
        """Take what the graph reported of a decode step."""
        if self._control.sere is not None:
            self._steps += 1
            self._active += self._stacked("sere_active")

    def count_prompt(self) -> None:
        """Take what the graph reported of a prompt."""
        if self._control.macs is not None:
            self._prompts += 1
            self._macs += self._stacked("macs_report")

    def totals(self) -> RoutingTotals:
        """What control did so far."""
        return RoutingTotals.of(self._steps, self._active, self._prompts, self._macs)

    def _stacked(self, name: str) -> Tensor:
        return torch.stack([self.reports[f"{name}_{layer}"] for layer in self._layers])

    def _report_of(self, name: str, size: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return {
            f"{name}_{layer}": torch.zeros(size, dtype=dtype, device=self._device)
            for layer in self._layers
        }
