"""The torch target: the networks run eagerly, straight from the checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from ..core.manifest import ENGINE_DTYPES, Backend
from ..models.checkpoint import Checkpoint
from .network import Network
from .targets import Artifacts, WriteOptions, refuse_capabilities, targets


class TorchTarget:
    """Nothing is exported: an engine is its manifest and the small files beside it."""

    dtypes = ENGINE_DTYPES
    dynamic_kv = False

    def default_dtype(self, checkpoint: Checkpoint) -> str:
        """The checkpoint's own."""
        return str(checkpoint.embedding_table().dtype).removeprefix("torch.")

    def backend(self) -> Backend:
        return Backend("torch", torch.__version__)

    def compute_capabilities(self, requested: tuple[str, ...]) -> tuple[str, ...]:
        return refuse_capabilities("torch", requested)

    def write(self, network: Network, directory: Path, options: WriteOptions) -> Artifacts:
        return Artifacts()


targets.register("torch")(TorchTarget())
