"""Opening TensorRT engines: nothing is loaded before the manifest fits this machine."""

from __future__ import annotations

from ...core.staleness import require_same_gpu, require_same_library
from ...core.tensorrt_library import TensorRTLibrary, load_tensorrt
from . import tensorrt_device
from .base import LLMEngine, VisionEngine
from .opening import Opening
from .tensorrt_device import Device
from .tensorrt_llm import TensorRTLLMEngine
from .tensorrt_plugins import register_plugins
from .tensorrt_program import TensorRTProgram
from .tensorrt_vision import TensorRTVisionEngine

PLAN_NAME = "model.plan"


def open_tensorrt_llm(opening: Opening) -> LLMEngine:
    """The language model of an opened engine directory.

    Raises:
        EngineError: it is stale, damaged or does not fit into memory.
        UsageError: the library or the GPU is missing.
    """
    program, device = _open_program(opening)
    checkpoint = opening.checkpoint
    return TensorRTLLMEngine(
        program,
        device,
        checkpoint.config.text,
        opening.manifest.limits,
        checkpoint.embedding_table(),
        opening.dtype,
        checkpoint.config.num_deepstack,
        opening.manifest.inputs,
    )


def open_tensorrt_vision(opening: Opening) -> VisionEngine:
    """The vision tower; raises like :func:`open_tensorrt_llm`."""
    program, device = _open_program(opening)
    return TensorRTVisionEngine(
        program,
        device,
        opening.checkpoint.config.vision,
        opening.manifest.limits,
        opening.dtype,
        opening.manifest.importance_layer is not None,
    )


def _open_program(opening: Opening) -> tuple[TensorRTProgram, Device]:
    manifest, directory = opening.manifest, opening.directory
    library: TensorRTLibrary = load_tensorrt(manifest.target)
    require_same_library(manifest, directory, library.version)
    device = tensorrt_device.open_device(opening.device)
    require_same_gpu(manifest, directory, device.compute_capability)
    register_plugins(library, manifest, directory, device.torch_device)
    return TensorRTProgram(library, directory / PLAN_NAME, device), device
