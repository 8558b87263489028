"""The two TensorRT targets: engines for NVIDIA GPUs."""

from __future__ import annotations

from pathlib import Path

from ..core import UsageError
from ..core.capabilities import (
    TENSORRT,
    TENSORRT_DTYPES,
    TENSORRT_RTX,
    TITLES,
    require_version,
    supported_capabilities,
)
from ..core.gpu import present_gpu
from ..core.manifest import Backend
from ..core.tensorrt_library import load_tensorrt
from ..models.checkpoint import Checkpoint
from .network import Network
from .targets import Artifacts, WriteOptions, targets
from .tensorrt_plan import build_plan

PLAN_NAME = "model.plan"


class TensorRTTarget:
    """``library`` is ``"tensorrt"`` or ``"tensorrt-rtx"``; weights become part of the plan.

    TensorRT tries kernels out, so it builds on the GPU that will run the engine. TensorRT for RTX
    compiles for GPUs it is told of and needs none.
    """

    dtypes = TENSORRT_DTYPES
    dynamic_kv = False  # a cache update needs a static capacity

    def __init__(self, library: str) -> None:
        self.library = library

    def default_dtype(self, checkpoint: Checkpoint) -> str:
        """The checkpoint's own; ``bfloat16`` for float32, whose range it keeps."""
        own = str(checkpoint.embedding_table().dtype).removeprefix("torch.")
        return own if own in self.dtypes else "bfloat16"

    def backend(self) -> Backend:
        return Backend(self.library, load_tensorrt(self.library).version)

    def compute_capabilities(self, requested: tuple[str, ...]) -> tuple[str, ...]:
        if self.library == TENSORRT_RTX:
            return self._portable(requested)
        gpu = present_gpu()
        if gpu is None:
            raise UsageError(
                "target tensorrt builds on the GPU that will run the engine, and torch sees none"
                " here; build on the device, or use --target tensorrt-rtx --sm ... for an RTX GPU"
            )
        here = gpu.compute_capability
        if requested not in ((), (here,)):
            raise UsageError(
                f"--sm {', '.join(requested)}: target tensorrt builds for the GPU of this machine,"
                f" {gpu.name} with {here}; leave --sm out"
            )
        require_version(TENSORRT, load_tensorrt(TENSORRT).version, here)
        return (here,)

    def write(self, network: Network, directory: Path, options: WriteOptions) -> Artifacts:
        if self.library == TENSORRT_RTX and "macs" in network.routing:
            raise UsageError(
                f"--routing macs needs a plugin, and {TITLES[self.library]} runs no plugins;"
                " choose another target or leave macs out"
            )
        library = load_tensorrt(self.library)
        summary = build_plan(library, network, options, directory / PLAN_NAME)
        return Artifacts(
            files=(PLAN_NAME,),
            compute_capability=",".join(options.compute_capabilities),
            plugin_sources=summary.plugin_sources,
        )

    def _portable(self, requested: tuple[str, ...]) -> tuple[str, ...]:
        legal = supported_capabilities(TENSORRT_RTX)
        gpu = None if requested else present_gpu()
        wanted = requested or ((gpu.compute_capability,) if gpu else ())
        if not wanted:
            raise UsageError(
                "target tensorrt-rtx: there is no GPU here to build for; name yours with --sm, for"
                " example --sm 89,120"
            )
        for capability in wanted:
            if capability not in legal:
                known = sorted((c.replace(".", "") for c in legal), key=int)
                raise UsageError(
                    f"{TITLES[TENSORRT_RTX]} has no kernels for compute capability {capability};"
                    f" legal values of --sm: {', '.join(known)}"
                )
        return wanted


for _library in (TENSORRT, TENSORRT_RTX):
    targets.register(_library)(TensorRTTarget(_library))
