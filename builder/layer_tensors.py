"""Which tensors of the contract one decoder layer uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..models import TextConfig
from ..plugins.controls import Control, numbered

LENGTHS = ("write_indices", "kv_lengths")


@dataclass(frozen=True)
class LayerTensors:
    """What one layer takes besides its rows and angles, and gives besides its rows, by name.

    ``reports`` has dtype and shape of the outputs that follow the two caches.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reports: tuple[tuple[torch.dtype, tuple[int, ...]], ...] = ()

    @classmethod
    def of(cls, config: TextConfig, controls: Sequence[Control], layer: int) -> LayerTensors:
        caches = (f"k_cache_{layer}", f"v_cache_{layer}")
        used = controls if layer in config.moe_layers else ()
        shared = [spec for control in used for spec in control.shared]
        own = [spec for control in used for spec in numbered(control.layer, layer)]
        reports = [spec for control in used for spec in numbered(control.reports, layer)]
        return cls(
            inputs=(*caches, *LENGTHS, *(spec.name for spec in (*shared, *own))),
            outputs=(*(f"{name}_out" for name in caches), *(spec.name for spec in reports)),
            reports=tuple(
                (getattr(torch, spec.dtype), tuple(int(size) for size in spec.shape))
                for spec in reports
            ),
        )
