"""Checkpoint in, engine directory out."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..core import EngineError, UsageError
from ..core.limits import EngineLimits
from ..core.manifest import (
    Backend,
    CheckpointRef,
    Manifest,
    checkpoint_location,
    edgevlm_version,
    platform_name,
)
from ..core.manifest_file import digest, write_manifest
from ..models.checkpoint import Checkpoint
from ..plugins.controls import CONTROLS
from .network import Network
from .output import replace_directory
from .side_files import side_files
from .targets import Artifacts, Progress, Target, WriteOptions, no_progress, targets

STEPS = ("read checkpoint", "export visual", "export llm", "write", "verify")
_CACHES = ".tensorrt-cache"


@dataclass(frozen=True)
class BuildConfig:
    """What to build. ``dtype`` of ``None`` leaves the choice to the target, as does an empty
    ``compute_capabilities`` (``("8.9", "12.0")`` builds for these two generations of GPUs).

    ``importance_layer`` is the layer of the vision tower whose queries and keys the visual engine
    can deliver, for pruners that rank by attention; negative ones count from the last.

    ``routing`` names the controls the experts can be put under at run time; ``None`` stands for
    ``("sere",)`` where there are experts. The target torch always offers all."""

    checkpoint: Path
    output: Path
    target: str
    dtype: str | None = None
    limits: EngineLimits = field(default_factory=EngineLimits)
    compute_capabilities: tuple[str, ...] = ()
    importance_layer: int | None = -1
    routing: tuple[str, ...] | None = None


def build_engine(
    config: BuildConfig,
    on_step: Callable[[str], None] = lambda step: None,
    *,
    on_progress: Progress = no_progress,
    verify: Callable[[Path], None] = lambda directory: None,
) -> None:
    """Build ``config.output/visual`` and ``config.output/llm``, both or neither.

    Args:
        on_step: called with each of :data:`STEPS` as it begins.
        on_progress: called often during a long step.
        verify: called with the finished directory before it takes its place; an error it raises
            leaves the previous engine untouched.

    Raises:
        UsageError: the target, the dtype, the limits or the output path is not acceptable.
        CheckpointError: the checkpoint is incomplete or not supported.
        EngineError: the output cannot be written, or another build of it is running.
    """
    on_step(STEPS[0])
    target = targets.get(config.target)
    backend = target.backend()
    checkpoint = Checkpoint(config.checkpoint)
    dtype = config.dtype or target.default_dtype(checkpoint)
    _check(config, dtype, target, checkpoint)
    importance_layer = _importance_layer(config, checkpoint)
    capabilities = target.compute_capabilities(config.compute_capabilities)
    networks = [
        Network(
            kind,
            checkpoint,
            config.limits,
            dtype,
            target.dynamic_kv,
            importance_layer,
            _routing(config, checkpoint),
        )
        for kind in ("visual", "llm")
    ]
    for network in networks:
        side_files(checkpoint.directory, network.kind)  # fails now rather than after the export
    output = config.output.resolve()
    options = WriteOptions(output.parent / _CACHES, capabilities, on_progress)
    try:
        with replace_directory(output) as building:
            artifacts: list[Artifacts] = []
            for network, step in zip(networks, STEPS[1:3], strict=True):
                on_step(step)
                (building / network.kind).mkdir()
                artifacts.append(target.write(network, building / network.kind, options))
            on_step(STEPS[3])
            for network, written in zip(networks, artifacts, strict=True):
                directory = building / network.kind
                for path in side_files(checkpoint.directory, network.kind):
                    shutil.copyfile(path, directory / path.name)
                home = output / network.kind
                manifest = _manifest(config.target, backend, network, written, directory, home)
                write_manifest(manifest, directory)
            on_step(STEPS[4])
            verify(building)
    except OSError as error:
        raise _explain(error, output) from error


def _manifest(
    target: str,
    backend: Backend,
    network: Network,
    written: Artifacts,
    directory: Path,
    home: Path,
) -> Manifest:
    """Describe the engine in ``directory``, which will be renamed to ``home``."""
    checkpoint, contract = network.checkpoint, network.contract
    return Manifest(
        kind=network.kind,
        target=target,
        dtype=network.dtype,
        backend=backend,
        checkpoint=CheckpointRef(
            checkpoint_location(checkpoint.directory, home), checkpoint.fingerprint
        ),
        limits=network.limits,
        profiles=contract.profiles,
        inputs=contract.inputs,
        outputs=contract.outputs,
        files={name: digest(directory / name) for name in written.files},
        platform=platform_name(),
        edgevlm_version=edgevlm_version(),
        compute_capability=written.compute_capability,
        plugin_sources=written.plugin_sources,
        importance_layer=network.importance_layer,
        routing=network.routing if checkpoint.config.text.moe else None,
    )


def _check(config: BuildConfig, dtype: str, target: Target, checkpoint: Checkpoint) -> None:
    if dtype not in target.dtypes:
        raise UsageError(
            f"--dtype {dtype} does not run on target {config.target};"
            f" legal values: {', '.join(target.dtypes)}"
        )
    longest = checkpoint.config.text.max_position_embeddings
    if config.limits.max_kv_len > longest:
        raise UsageError(
            f"max_kv_len is {config.limits.max_kv_len} but {config.checkpoint} was trained for"
            f" {longest} positions; lower it"
        )


def _importance_layer(config: BuildConfig, checkpoint: Checkpoint) -> int | None:
    """The layer asked for, counted from 0."""
    layer, depth = config.importance_layer, checkpoint.config.vision.depth
    if layer is None:
        return None
    if not -depth <= layer < depth:
        raise UsageError(
            f"--importance-layer {layer}: the vision tower of {config.checkpoint} has layers 0 to"
            f" {depth - 1}, or {-depth} to -1 from the end; none leaves it out"
        )
    return layer % depth


def _routing(config: BuildConfig, checkpoint: Checkpoint) -> tuple[str, ...]:
    """The controls asked for, in a fixed order."""
    if checkpoint.config.text.moe is None:
        if config.routing:
            raise UsageError(
                f"--routing {' '.join(config.routing)}: {config.checkpoint} has no experts"
            )
        return ()
    if config.routing is None:
        return ("sere",)
    for name in config.routing:
        CONTROLS.get(name)
    return tuple(name for name in ("sere", "macs") if name in config.routing)


def _explain(error: OSError, output: Path) -> EngineError:
    where = error.filename or output
    if error.errno == errno.ENOSPC:
        return EngineError(f"{where}: no space left on the device; free some or move --output")
    return EngineError(f"{where}: {error.strerror or error}; check the path of --output")
