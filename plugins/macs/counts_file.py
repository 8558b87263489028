"""The calibration file: each layer's choices by modality, and how they came about."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...core import UsageError
from ...models import Checkpoint
from ..calibration_file import open_calibration
from ..tensor_file import save_tensors
from .groups import expert_groups

FORMAT = "edgevlm-macs-1"
_COUNTS = "counts"
_AGAIN = "run edgevlm calibrate macs"


@dataclass(frozen=True)
class Provenance:
    """How counts came about; all are strings, as a safetensors file keeps them.

    ``data`` is the SHA-256 digest (hex) of the prompts' token ids and visual spans.
    """

    checkpoint: str
    fingerprint: str
    prompts: str
    visual_tokens: str
    text_tokens: str
    data: str
    dtype: str
    edgevlm: str
    format: str = FORMAT


@dataclass(frozen=True)
class ModalityCounts:
    """Choices ``[L,2,N]`` int64 of the layers with experts: by visual and by text tokens."""

    counts: Tensor
    provenance: Provenance

    def groups(self, threshold: float) -> Tensor:
        """Groups ``[L,N]`` fp32; see :func:`~edgevlm.plugins.macs.groups.expert_groups`."""
        return expert_groups(self.counts, threshold)


def write_counts(path: Path, found: ModalityCounts) -> None:
    """Write the file.

    Raises:
        UsageError: it cannot be written; a file that was there is as it was.
    """
    save_tensors(path, {_COUNTS: found.counts}, asdict(found.provenance))


def load_counts(path: Path, checkpoint: Checkpoint) -> ModalityCounts:
    """Read a calibration file of ``checkpoint``.

    Raises:
        UsageError: it is missing, damaged, no such file at all, or of another checkpoint.
    """
    file, provenance = open_calibration(path, checkpoint, Provenance, FORMAT, _AGAIN)
    text = checkpoint.config.text
    shape = (len(text.moe_layers), 2, text.moe.num_experts if text.moe else 0)
    info = file.tensors.get(_COUNTS)
    if info is None or info.shape != shape or info.dtype != torch.int64:
        raise UsageError(f"{path}: {_COUNTS} must be {list(shape)} int64; {_AGAIN}")
    return ModalityCounts(file.tensor(info).clone(), provenance)
