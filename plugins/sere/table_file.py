"""The calibration file: one similarity matrix a layer, and how it came about."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from ...core import UsageError
from ...models import Checkpoint
from ...models.safetensors_file import SafetensorsFile
from ..calibration_file import open_calibration
from ..tensor_file import save_tensors
from .config import SereConfig
from .protection import protected_experts

FORMAT = "edgevlm-sere-1"
_AGAIN = "run edgevlm calibrate sere"


@dataclass(frozen=True)
class Provenance:
    """How a table came about; all are strings, as a safetensors file keeps them.

    ``data`` and ``task_data`` are SHA-256 digests (hex) of token ids. Without tasks, routed mass is
    that over the calibration texts and ``task_data`` is empty.
    """

    checkpoint: str
    fingerprint: str
    metric: str
    tokens: str
    data: str
    task_data: str
    protect_by: str
    dtype: str
    edgevlm: str
    format: str = FORMAT


@dataclass(frozen=True)
class SereTable:
    """Similarities ``[N,N]`` fp32 and routed mass ``[N]`` fp32 of each layer that has experts."""

    similarity: dict[int, Tensor]
    routed_mass: dict[int, Tensor]
    provenance: Provenance

    def protected(self, config: SereConfig) -> dict[int, Tensor]:
        """``[N]`` bool by layer: the experts that ``config`` protects.

        Raises:
            UsageError: it asks for more experts than a layer has.
        """
        rule = config.protect_by or self.provenance.protect_by
        return {
            layer: protected_experts(
                matrix, self.routed_mass[layer], config.protected_count(len(matrix)), rule
            )
            for layer, matrix in self.similarity.items()
        }


def similarity_name(layer: int) -> str:
    return f"layers.{layer}.similarity"


def mass_name(layer: int) -> str:
    return f"layers.{layer}.routed_mass"


def write_table(path: Path, tensors: dict[str, Tensor], provenance: Provenance) -> None:
    """Write the file; tensors are named by :func:`similarity_name` and :func:`mass_name`.

    Raises:
        UsageError: it cannot be written; a file that was there is as it was.
    """
    save_tensors(path, tensors, asdict(provenance))


def load_table(path: Path, checkpoint: Checkpoint) -> SereTable:
    """Read a calibration file of ``checkpoint``.

    Raises:
        UsageError: it is missing, damaged, no such file at all, or of another checkpoint.
    """
    file, provenance = open_calibration(path, checkpoint, Provenance, FORMAT, _AGAIN)
    text = checkpoint.config.text
    experts = text.moe.num_experts if text.moe else 0
    similarity = {
        layer: _tensor(file, similarity_name(layer), (experts, experts)).fill_diagonal_(1)
        for layer in text.moe_layers
    }
    mass = {layer: _tensor(file, mass_name(layer), (experts,)) for layer in text.moe_layers}
    return SereTable(similarity, mass, provenance)


def _tensor(file: SafetensorsFile, name: str, shape: tuple[int, ...]) -> Tensor:
    info = file.tensors.get(name)
    if info is None or info.shape != shape:
        found = "is missing" if info is None else f"has shape {list(info.shape)}"
        raise UsageError(
            f"{file.path}: {name} {found}, the checkpoint needs {list(shape)}; {_AGAIN}"
        )
    tensor = file.tensor(info).float().clone()
    if not bool(((tensor >= 0) & (tensor <= 1)).all()):  # false for NaN
        raise UsageError(f"{file.path}: {name} has values outside 0..1; {_AGAIN}")
    return tensor
