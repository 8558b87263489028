"""What an engine can be built for. One file per target; each registers itself by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..core import Registry, UsageError
from ..core.manifest import Backend
from ..models.checkpoint import Checkpoint
from .network import Network

Progress = Callable[[str, float], None]
"""``(phase, fraction)``: what a long step is doing, and how much of it is done (0 to 1)."""


def no_progress(phase: str, fraction: float) -> None:
    """For callers that show none."""


@dataclass(frozen=True)
class Artifacts:
    """What a target wrote: model file names, and what the manifest should say of them."""

    files: tuple[str, ...] = ()
    compute_capability: str | None = None
    plugin_sources: dict[str, str] = field(default_factory=dict)  # source name -> SHA-256


@dataclass(frozen=True)
class WriteOptions:
    """``compute_capabilities`` are those the target chose; ``cache_dir`` outlives the build."""

    cache_dir: Path
    compute_capabilities: tuple[str, ...] = ()
    on_progress: Progress = no_progress


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

    def compute_capabilities(self, requested: tuple[str, ...]) -> tuple[str, ...]:
        """The GPUs to build for, such as ``("8.9", "12.0")``, given what the user asked for.

        Raises:
            UsageError: this target cannot build for them here.
        """

    def write(self, network: Network, directory: Path, options: WriteOptions) -> Artifacts:
        """Write the model files of ``network`` into ``directory``, which exists and is empty."""


def refuse_capabilities(target: str, requested: tuple[str, ...]) -> tuple[str, ...]:
    """For targets whose engines are not tied to a GPU."""
    if requested:
        raise UsageError(f"--sm does not apply to target {target}: its engines run on any machine")
    return ()


targets: Registry[Target] = Registry("build target")
