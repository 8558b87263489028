"""Opening the engine inside the worker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ...core import EngineError, open_manifest
from ...pruners import VisualPrunerConfig, visual_pruner_names
from ...runtime import ExpertRoutingConfig, Runtime
from .messages import EngineInfo, WorkerSettings


@dataclass(frozen=True)
class OpenedEngine:
    """A runtime and what to tell about it."""

    runtime: Runtime
    info: EngineInfo


def open_by_name(settings: WorkerSettings) -> OpenedEngine:
    """Call the opener that the settings name.

    Raises:
        EdgeVLMError: it cannot be opened; one line says why.
    """
    module, _, function = settings.opener.partition(":")
    opened: OpenedEngine = getattr(import_module(module), function)(settings)
    return opened


def open_engine(settings: WorkerSettings) -> OpenedEngine:
    """Open an engine directory."""
    runtime = Runtime.open(
        settings.llm,
        settings.visual,
        checkpoint_dir=settings.checkpoint,
        device=settings.device,
        max_batch=settings.slots,
    )
    runtime.set_visual_pruner_config(VisualPrunerConfig(**settings.pruning))
    runtime.set_expert_routing(ExpertRoutingConfig.from_mapping(settings.routing))
    manifest = open_manifest(Path(settings.llm), "llm")
    return OpenedEngine(runtime, describe(runtime, settings, manifest.target, manifest.dtype))


def describe(runtime: Runtime, settings: WorkerSettings, target: str, dtype: str) -> EngineInfo:
    """What the HTTP side needs to know of a runtime."""
    limits = runtime.limits
    return EngineInfo(
        target=target,
        dtype=dtype,
        slots=runtime.max_batch,
        max_input_len=limits.max_input_len,
        max_kv_len=limits.max_kv_len,
        max_image_tokens=limits.max_image_tokens if settings.visual else None,
        pruners=tuple(visual_pruner_names()),
        sampling=sampling_defaults(Path(settings.llm) / "generation_config.json"),
    )


def sampling_defaults(path: Path) -> dict[str, float]:
    """How the checkpoint wants to be sampled, as its ``generation_config.json`` says.

    Raises:
        EngineError: the file is damaged.
    """
    if not path.is_file():
        return {}
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise EngineError(f"{path}: not valid JSON; copy it from the checkpoint") from None
    if not values.get("do_sample", True):
        return {"temperature": 0.0}
    names = ("temperature", "top_p", "top_k")
    return {name: values[name] for name in names if isinstance(values.get(name), int | float)}
