"""When an engine must not be run: another library version, another GPU, failed comparison."""

from __future__ import annotations

from pathlib import Path

from .capabilities import TITLES
from .errors import EngineError
from .manifest import Manifest


def require_same_library(manifest: Manifest, engine_dir: Path, version: str) -> None:
    """Refuse an engine that another version of its library built.

    Raises:
        EngineError: the versions differ; the message names both.
    """
    built = manifest.backend.version
    if built != version:
        title = TITLES.get(manifest.backend.name, manifest.backend.name)
        raise EngineError(
            f"{engine_dir}: built with {title} {built}, but {version} is installed; an engine runs"
            f" on the version that built it; rebuild: {manifest.rebuild_command(engine_dir)}"
        )


def require_same_gpu(manifest: Manifest, engine_dir: Path, capability: str) -> None:
    """Refuse an engine that was built for other GPUs.

    Raises:
        EngineError: ``capability`` (such as ``"11.0"``) is not among those of the build.
    """
    built = manifest.compute_capabilities
    if built and capability not in built:
        raise EngineError(
            f"{engine_dir}: built for compute capability {', '.join(built)}, but this GPU has"
            f" {capability}; rebuild it here or with --sm {capability.replace('.', '')}"
        )


def require_parity(manifest: Manifest, engine_dir: Path) -> None:
    """Refuse an engine that was compared with the reference and found wrong.

    One that was never compared is not refused: it may have been built for another machine.

    Raises:
        EngineError: it failed, and nobody accepted that.
    """
    parity = manifest.parity
    if parity is None or parity.get("passed", 0.0) or parity.get("accepted", 0.0):
        return
    figures = {k: v for k, v in parity.items() if k.endswith(("_cosine", "agreement"))}
    worst = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    raise EngineError(
        f"{engine_dir}: it failed its comparison with the reference ({worst}); rebuild it, in"
        " bfloat16 if this is float16, or accept it: edgevlm verify"
        f" {engine_dir.parent} --allow-unverified"
    )
