"""Engine directories to engines: check the manifest, find the checkpoint, choose the backend.

Backends are imported only when a manifest names them, so a machine needs no library it does not
use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ...core import EngineError, Manifest, Registry, UsageError, open_manifest
from ...core.device import torch_device
from ...core.staleness import require_parity
from ...models import Checkpoint, ModelConfig
from .base import LLMEngine, VisionEngine


@dataclass(frozen=True)
class Opening:
    """What a backend is given to open one engine directory."""

    directory: Path
    manifest: Manifest
    checkpoint: Checkpoint
    dtype: torch.dtype
    device: str | None
    expert_parallel: bool = False

    def cpu_only(self) -> None:
        """Refuse a device other than the CPU."""
        if self.device not in (None, "cpu"):
            raise UsageError(
                f"--device {self.device}: the target {self.manifest.target} runs on the CPU only;"
                " build with --target torch for a GPU"
            )

    def torch_device(self) -> torch.device:
        """The requested torch device; CUDA if there is one, else the CPU."""
        return torch_device(self.device, "--device {name}: torch cannot use it")


@dataclass(frozen=True)
class Backend:
    """How one build target's engines are opened."""

    llm: Callable[[Opening], LLMEngine]
    vision: Callable[[Opening], VisionEngine]


@dataclass(frozen=True)
class OpenedEngines:
    """A pair of engines and the checkpoint both follow."""

    llm: LLMEngine
    vision: VisionEngine | None
    checkpoint: Checkpoint

    @property
    def config(self) -> ModelConfig:
        return self.checkpoint.config


BACKENDS: Registry[Backend] = Registry("engine backend")


def open_engines(
    llm_dir: Path,
    visual_dir: Path | None,
    checkpoint_dir: Path | None,
    device: str | None,
    *,
    allow_unverified: bool = False,
    expert_parallel: bool = False,
) -> OpenedEngines:
    """Open the engines of two directories written by one build.

    Args:
        allow_unverified: also open engines that failed their comparison with the reference.
        expert_parallel: share experts with the other ranks of the process group, which all open
            the same engines and give them the same requests.

    Raises:
        EngineError: a directory is not an engine, is stale, failed its comparison with the
            reference, or the two do not belong together.
        CheckpointError: the checkpoint is missing or damaged.
        UsageError: the device cannot be used.
    """
    manifest = open_manifest(llm_dir, "llm")
    if not allow_unverified:
        require_parity(manifest, llm_dir)
    checkpoint = _open_checkpoint(llm_dir, manifest, checkpoint_dir)
    vision = None
    if visual_dir is not None:
        visual = open_manifest(visual_dir, "visual")
        if not allow_unverified:
            require_parity(visual, visual_dir)
        if visual.checkpoint.fingerprint != manifest.checkpoint.fingerprint:
            raise EngineError(
                f"{llm_dir} and {visual_dir} were built from different checkpoints;"
                " pass two directories of one build"
            )
        vision = BACKENDS.get(visual.target).vision(
            _opening(visual_dir, visual, checkpoint, device)
        )
    if expert_parallel and (manifest.target != "torch" or checkpoint.config.text.moe is None):
        raise UsageError(
            f"{llm_dir}: experts can be shared by ranks where there are some and the target is"
            f" torch; this is {checkpoint.directory.name} for {manifest.target}"
        )
    opening = _opening(llm_dir, manifest, checkpoint, device)
    llm = BACKENDS.get(manifest.target).llm(replace(opening, expert_parallel=expert_parallel))
    return OpenedEngines(llm, vision, checkpoint)


def _open_checkpoint(directory: Path, manifest: Manifest, override: Path | None) -> Checkpoint:
    source = manifest.checkpoint_dir(directory, override)
    if not source.is_dir():
        raise EngineError(
            f"{directory}: its checkpoint {source} is not there; say where it is now with"
            " --checkpointDir"
        )
    checkpoint = Checkpoint(source)
    manifest.require_checkpoint(directory, source, checkpoint.fingerprint)
    return checkpoint


def _opening(
    directory: Path, manifest: Manifest, checkpoint: Checkpoint, device: str | None
) -> Opening:
    return Opening(directory, manifest, checkpoint, getattr(torch, manifest.dtype), device)


def _open_torch_llm(opening: Opening) -> LLMEngine:
    from .torch_llm import TorchLLMEngine

    checkpoint = opening.checkpoint
    return TorchLLMEngine(
        checkpoint.config.text,
        opening.manifest.limits,
        checkpoint.text_state(),
        checkpoint.embedding_table(),
        opening.dtype,
        opening.torch_device(),
        expert_parallel=opening.expert_parallel,
    )


def _open_torch_vision(opening: Opening) -> VisionEngine:
    from .torch_vision import TorchVisionEngine

    checkpoint = opening.checkpoint
    return TorchVisionEngine(
        checkpoint.config.vision,
        opening.manifest.limits,
        checkpoint.vision_state(),
        opening.dtype,
        opening.torch_device(),
        opening.manifest.importance_layer,
    )


def _open_onnx_llm(opening: Opening) -> LLMEngine:
    from .onnx_llm import OnnxLLMEngine
    from .onnx_session import OnnxSession

    opening.cpu_only()
    checkpoint = opening.checkpoint
    return OnnxLLMEngine(
        OnnxSession(opening.directory, checkpoint),
        checkpoint.config.text,
        opening.manifest.limits,
        checkpoint.embedding_table(),
        opening.dtype,
        checkpoint.config.num_deepstack,
        opening.manifest.inputs,
    )


def _open_onnx_vision(opening: Opening) -> VisionEngine:
    from .onnx_session import OnnxSession
    from .onnx_vision import OnnxVisionEngine

    opening.cpu_only()
    return OnnxVisionEngine(
        OnnxSession(opening.directory, opening.checkpoint),
        opening.checkpoint.config.vision,
        opening.manifest.limits,
        opening.dtype,
        opening.manifest.importance_layer is not None,
    )


def _open_tensorrt_llm(opening: Opening) -> LLMEngine:
    from .tensorrt_opening import open_tensorrt_llm

    return open_tensorrt_llm(opening)


def _open_tensorrt_vision(opening: Opening) -> VisionEngine:
    from .tensorrt_opening import open_tensorrt_vision

    return open_tensorrt_vision(opening)


BACKENDS.register("torch")(Backend(_open_torch_llm, _open_torch_vision))
BACKENDS.register("onnxruntime")(Backend(_open_onnx_llm, _open_onnx_vision))
for _target in ("tensorrt", "tensorrt-rtx"):
    BACKENDS.register(_target)(Backend(_open_tensorrt_llm, _open_tensorrt_vision))
