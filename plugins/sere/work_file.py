"""What a calibration has done so far, in a file that survives the process being killed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from ...core import CheckpointError
from ...models.safetensors_file import SafetensorsFile
from ..tensor_file import save_tensors


@dataclass
class Work:
    """``hidden [n,S,H]`` are the hidden states in front of layer ``next_layer``.

    ``found`` are the results of the layers before it, by name.
    """

    next_layer: int
    hidden: Tensor
    found: dict[str, Tensor] = field(default_factory=dict)


class WorkFile:
    """Holds the work of one calibration. ``settings`` say which; other work is not taken up."""

    def __init__(self, path: Path, settings: dict[str, str]) -> None:
        self.path = path
        self._settings = json.dumps(settings, sort_keys=True)

    def load(self) -> Work | None:
        """The work that was saved last, if it is there, whole and of these settings."""
        try:
            file = SafetensorsFile(self.path)
        except CheckpointError:
            return None
        metadata = json.loads(file.header).get("__metadata__", {})
        if metadata.get("settings") != self._settings:
            return None
        tensors = {name: file.tensor(info).clone() for name, info in file.tensors.items()}
        return Work(int(metadata["next_layer"]), tensors.pop("hidden"), tensors)

    def save(self, work: Work) -> None:
        """Replace the file, or leave it as it was.

        Raises:
            UsageError: it cannot be written.
        """
        metadata = {"settings": self._settings, "next_layer": str(work.next_layer)}
        save_tensors(self.path, {"hidden": work.hidden, **work.found}, metadata)

    def remove(self) -> None:
        """Forget the work."""
        self.path.unlink(missing_ok=True)
