"""What an engine can be built for. One file per target; each registers itself by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..core import Registry
from ..core.manifest import Backend
from ..models.checkpoint import Checkpoint
from .network import Network


@dataclass(frozen=True)
class Artifacts:
    """What a target wrote: model file names, and what the manifest should say of them."""

    files: tuple[str, ...] = ()
    compute_capability: str | None = None
    plugin_sources: dict[str, str] = field(default_factory=dict)  # source name -> SHA-256


class Target(Protocol):
    """One kind of engine."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes such an engine can run, by torch name."""

    @property
    def dynamic_kv(self) -> bool:
        """Whether the KV capacity may differ from call to call, up to ``max_kv_len``."""

    def default_dtype(self, checkpoint: Checkpoint) -> str:
        """The dtype of an engine whose user named none."""

    def backend(self) -> Backend:
        """The library that will run the engine.

        Raises:
            UsageError: it is not installed or too old; the message says what to install.
        """

    def write(self, network: Network, directory: Path) -> Artifacts:
        """Write the model files of ``network`` into ``directory``, which exists and is empty."""


targets: Registry[Target] = Registry("build target")
