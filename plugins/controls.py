"""What an engine with routing control takes and returns beyond the plain network.

Shared inputs serve all layers; those of one layer, and what it reports, have the layer's number at
the end of their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core import Registry
from ..core.manifest import TensorSpec
from ..models import MoeConfig
from .macs.config import SETTINGS
from .macs.report import ENTRIES

ROWS = ("batch", "tokens")


@dataclass(frozen=True)
class Control:
    """The tensors of one kind of routing control; names lack the layer's number."""

    name: str
    shared: tuple[TensorSpec, ...]
    layer: tuple[TensorSpec, ...]
    reports: tuple[TensorSpec, ...]


CONTROLS: Registry[Callable[[MoeConfig], Control]] = Registry("routing control")


@CONTROLS.register("sere")
def sere_control(config: MoeConfig) -> Control:
    """Re-routing at decode: see :mod:`edgevlm.plugins.sere`. ``sere_top_k`` 0 turns it off."""
    count = config.num_experts
    return Control(
        name="sere",
        shared=(
            TensorSpec("decode_rows", "bool", ROWS),
            TensorSpec("sere_top_k", "int64", (1,)),
            TensorSpec("sere_threshold", "float32", (1,)),
        ),
        layer=(
            TensorSpec("sere_similarity", "float32", (count, count)),
            TensorSpec("sere_protected", "bool", (count,)),
        ),
        reports=(TensorSpec("sere_active", "int64", (2,)),),
    )


@CONTROLS.register("macs")
def macs_control(config: MoeConfig) -> Control:
    """Capacity at prefill: see :mod:`edgevlm.plugins.macs`. Settings of zeros turn it off."""
    return Control(
        name="macs",
        shared=(
            TensorSpec("prompt_rows", "bool", ROWS),
            TensorSpec("visual_rows", "bool", ROWS),
            TensorSpec("macs_settings", "float32", (len(SETTINGS),)),
        ),
        layer=(TensorSpec("macs_groups", "float32", (config.num_experts,)),),
        reports=(TensorSpec("macs_report", "float32", (len(ENTRIES),)),),
    )


def numbered(specs: tuple[TensorSpec, ...], layer: int) -> tuple[TensorSpec, ...]:
    """The specs under their names in ``layer``."""
    return tuple(TensorSpec(f"{spec.name}_{layer}", spec.dtype, spec.shape) for spec in specs)
