"""What an engine directory says about itself: ``manifest.json``, as frozen dataclasses."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .errors import EngineError
from .limits import EngineLimits

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
KINDS = ("llm", "visual")
ENGINE_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. A dimension is a number, a symbol, or ``"4*symbol"``."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Range:
    """Smallest, typical and largest value of one symbolic dimension."""

    min: int
    opt: int
    max: int


@dataclass(frozen=True)
class Profile:
    """A region of input shapes the engine is tuned for: one range per symbol."""

    name: str
    ranges: dict[str, Range]


@dataclass(frozen=True)
class Backend:
    """The library that runs the engine, at the version it was built with."""

    name: str
    version: str


@dataclass(frozen=True)
class CheckpointRef:
    """Where the weights live. A relative ``location`` starts at the manifest's own directory."""

    location: str
    fingerprint: str


@dataclass(frozen=True)
class FileDigest:
    """Size in bytes and SHA-256 (hex) of one model file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """One engine: ``kind`` is ``"llm"`` or ``"visual"``, ``dtype`` that of its activations.

    ``files`` are the model files, the ones that must not change after the build. ``parity`` holds
    the figures of the last comparison with the reference, or ``None`` before there was one.
    ``importance_layer`` is the layer of the vision tower, counted from 0, whose queries and keys
    the visual engine can deliver, or ``None``. ``routing`` names the controls that the build gave
    to a mixture of experts; ``None`` for a dense model.
    """

    kind: str
    target: str
    dtype: str
    backend: Backend
    checkpoint: CheckpointRef
    limits: EngineLimits
    profiles: tuple[Profile, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    files: dict[str, FileDigest]
    platform: str
    edgevlm_version: str
    compute_capability: str | None = None  # several are joined by commas: "8.9,12.0"
    plugin_sources: dict[str, str] = field(default_factory=dict)  # source name -> SHA-256
    parity: dict[str, float] | None = None
    importance_layer: int | None = None
    routing: tuple[str, ...] | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        for name, legal in (("kind", KINDS), ("dtype", ENGINE_DTYPES)):
            value = getattr(self, name)
            if value not in legal:
                raise EngineError(f"{name} is {value!r}; legal values: {', '.join(legal)}")

    @property
    def compute_capabilities(self) -> tuple[str, ...]:
        """The GPUs it was built for, such as ``("8.9", "12.0")``; empty where any will do."""
        return tuple(self.compute_capability.split(",")) if self.compute_capability else ()

    def checkpoint_dir(self, engine_dir: Path, override: Path | None = None) -> Path:
        """The checkpoint's directory: ``override`` if given, else where the build found it."""
        if override is not None:
            return override
        return Path(os.path.normpath(engine_dir.absolute() / self.checkpoint.location))

    def require_checkpoint(self, engine_dir: Path, directory: Path, fingerprint: str) -> None:
        """Check that the checkpoint in ``directory`` is the one the engine was built from.

        Raises:
            EngineError: its fingerprint differs.
        """
        built = self.checkpoint.fingerprint
        if fingerprint != built:
            command = self.rebuild_command(engine_dir, directory)
            raise EngineError(
                f"{engine_dir}: built from a checkpoint with fingerprint {built[:12]}, but"
                f" {directory} has {fingerprint[:12]}; restore that checkpoint or rebuild:"
                f" {command}"
            )

    def rebuild_command(self, engine_dir: Path, checkpoint: Path | None = None) -> str:
        """The command line that builds this engine again, with every option that mattered."""
        source = checkpoint or self.checkpoint_dir(engine_dir)
        options = {
            "checkpoint": source,
            "output": engine_dir.absolute().parent,
            "target": self.target,
            "dtype": self.dtype,
            **asdict(self.limits),
            "importance_layer": "none" if self.importance_layer is None else self.importance_layer,
        }
        if self.compute_capability:
            options["sm"] = self.compute_capability.replace(".", "")
        flags = [f"--{k.replace('_', '-')} {shlex.quote(str(v))}" for k, v in options.items()]
        if self.routing is not None:
            flags.append(" ".join(("--routing", *self.routing)))
        return " ".join(("edgevlm build", *flags))


def checkpoint_location(checkpoint: Path, engine_dir: Path) -> str:
    """How a manifest in ``engine_dir`` names ``checkpoint``.

    Relative where the two share a directory below the file-system root, so that the tree may move
    as a whole; absolute otherwise.
    """
    source, home = checkpoint.resolve(), engine_dir.resolve()
    shared = os.path.commonpath((source, home))
    return str(source) if shared == source.anchor else os.path.relpath(source, home)


def edgevlm_version() -> str:
    """The installed version, or ``"unknown"`` when run from a source tree."""
    try:
        return importlib.metadata.version("edgevlm")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def platform_name() -> str:
    """Operating system and machine, such as ``"linux-aarch64"``."""
    return f"{platform.system().lower()}-{platform.machine().lower()}"
