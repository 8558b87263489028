"""The engines an evaluation runs on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from platform import machine

import torch

from ...core import UsageError
from ...core.device import device_name
from ...core.manifest_file import read_manifest
from ...runtime import Runtime
from ...runtime.engines import open_engines
from ...runtime.processor import Processor
from .remembered_vision import RememberedVision

_REMEMBERED = 32  # vision batches; a prompt's images of one size are one or a few


@dataclass(frozen=True)
class EngineInfo:
    """What of an engine may change answers."""

    target: str
    dtype: str
    backend: str
    checkpoint: str
    limits: dict[str, int]
    importance_layer: int | None
    device: str


@dataclass(frozen=True)
class EngineDirs:
    """A pair of engine directories and what results call it."""

    name: str
    llm: Path
    visual: Path

    @classmethod
    def parse(cls, text: str) -> EngineDirs:
        """``DIR`` with ``llm/`` and ``visual/`` in it, or ``NAME=DIR``."""
        name, given, folder = text.rpartition("=")
        path = Path(folder)
        return cls(name if given else path.resolve().name, path / "llm", path / "visual")

    def describe(self, device: str | None) -> EngineInfo:
        """Read its manifests.

        Raises:
            EngineError: it is no engine directory.
        """
        manifest = read_manifest(self.llm)
        return EngineInfo(
            target=manifest.target,
            dtype=manifest.dtype,
            backend=f"{manifest.backend.name} {manifest.backend.version}",
            checkpoint=manifest.checkpoint.fingerprint[:16],
            limits=asdict(manifest.limits),
            importance_layer=read_manifest(self.visual).importance_layer,
            device=_device(manifest.target, device),
        )

    def open(
        self, device: str | None, checkpoint: Path | None, *, expert_parallel: bool = False
    ) -> Runtime:
        """Its runtime, with a memory for images.

        Args:
            expert_parallel: see :func:`~edgevlm.runtime.engines.open_engines`.

        Raises:
            EngineError, CheckpointError, UsageError: see :meth:`Runtime.open`.
        """
        opened = open_engines(
            self.llm, self.visual, checkpoint, device, expert_parallel=expert_parallel
        )
        assert opened.vision is not None
        most = opened.vision.limits.max_image_tokens
        processor = Processor.from_directories(self.llm, self.visual, most)
        vision = RememberedVision(opened.vision, _REMEMBERED)
        return Runtime(opened.llm, vision, processor, opened.config, checkpoint=opened.checkpoint)


def named_apart(engines: list[EngineDirs]) -> list[EngineDirs]:
    """The engines, if no two share a name.

    Raises:
        UsageError: two do.
    """
    names = [engine.name for engine in engines]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two engines are called {name!r}; name them: --engine NAME=DIR")
    return engines


def _device(target: str, wanted: str | None) -> str:
    name = device_name(wanted)
    if target == "onnxruntime" or name == "cpu" or not torch.cuda.is_available():
        return f"{machine()} CPU"
    return str(torch.cuda.get_device_name(torch.device(name)))
