"""What an engine directory is, and whether it can still be run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core import EdgeVLMError, EngineError, UsageError
from ..core.capabilities import TITLES
from ..core.gpu import present_gpu
from ..core.manifest import KINDS, MANIFEST_NAME, Manifest
from ..core.manifest_file import open_manifest, read_manifest
from ..core.staleness import require_parity, require_same_gpu, require_same_library
from ..models.checkpoint import Checkpoint
from .targets import targets


@dataclass(frozen=True)
class PartReport:
    """One engine of the directory. ``problems`` is empty where it can be run as it is.

    ``notes`` are differences that stop nothing, such as another version of the backend.
    """

    directory: Path
    manifest: Manifest
    model_bytes: int
    checkpoint: Path
    checkpoint_bytes: int | None  # None where the checkpoint cannot be opened
    problems: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class EngineReport:
    """All engines found under ``directory``."""

    directory: Path
    parts: tuple[PartReport, ...]

    @property
    def usable(self) -> bool:
        return not any(part.problems for part in self.parts)


def inspect_engine(directory: Path, checkpoint: Path | None = None) -> EngineReport:
    """Examine ``NAME``, ``NAME/llm`` or ``NAME/visual``.

    Args:
        checkpoint: the checkpoint, if it is no longer where the manifest says.

    Raises:
        EngineError: there is no engine, or a manifest cannot be read.
    """
    if (directory / MANIFEST_NAME).exists():
        parts = [directory]
    else:
        parts = [d for kind in KINDS if (d := directory / kind).is_dir()]
    if not parts:
        raise EngineError(
            f"{directory}: no {MANIFEST_NAME} here, in llm/ or in visual/; give the --output of"
            " `edgevlm build`"
        )
    return EngineReport(directory, tuple(_inspect_part(part, checkpoint) for part in parts))


def _inspect_part(directory: Path, override: Path | None) -> PartReport:
    manifest = read_manifest(directory)
    source = manifest.checkpoint_dir(directory, override)
    problems: list[str] = []
    checkpoint_bytes = None
    try:
        open_manifest(directory, manifest.kind)
        _require_fresh(manifest, directory)
        require_parity(manifest, directory)
    except EngineError as error:
        problems.append(str(error))
    try:
        checkpoint = Checkpoint(source)
        checkpoint_bytes = checkpoint.nbytes
        manifest.require_checkpoint(directory, source, checkpoint.fingerprint)
    except EdgeVLMError as error:
        problems.append(str(error))
    return PartReport(
        directory=directory,
        manifest=manifest,
        model_bytes=sum(file.bytes for file in manifest.files.values()),
        checkpoint=source,
        checkpoint_bytes=checkpoint_bytes,
        problems=tuple(problems),
        notes=tuple(_notes(manifest)),
    )


def _require_fresh(manifest: Manifest, directory: Path) -> None:
    """Compare a TensorRT engine with the library and the GPU of this machine, where they are."""
    if manifest.target not in TITLES:
        return
    try:
        version = targets.get(manifest.target).backend().version
    except UsageError:
        return  # not installed, which the notes say
    require_same_library(manifest, directory, version)
    gpu = present_gpu()
    if gpu is not None:
        require_same_gpu(manifest, directory, gpu.compute_capability)


def _notes(manifest: Manifest) -> list[str]:
    if manifest.target not in targets:
        return [f"this installation has no target {manifest.target!r}"]
    try:
        installed = targets.get(manifest.target).backend().version
    except EdgeVLMError as error:
        return [str(error)]
    if installed == manifest.backend.version:
        return []
    return [
        f"built with {manifest.backend.name} {manifest.backend.version}, {installed} is installed"
    ]
