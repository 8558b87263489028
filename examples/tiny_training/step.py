"""One training step per bucket: eager on a CPU, one captured graph on a GPU."""

from __future__ import annotations

import functools
import gc
from dataclasses import dataclass
from typing import Any

import torch

from edgevlm.accuracy.tiny.buckets import Bucket
from edgevlm.accuracy.tiny.render import RenderTables, render

from .layout import Layout
from .network import TinyNetwork
from .objective import Objective
from .optimizer import Trainee
from .pool import Pool

PATCHES_PER_STEP = 65536
PRECISIONS = ("bf16", "autocast", "fp32")
_WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Engine:
    """What every bucket's step shares.

    Attributes:
        precision: ``bf16`` computes with a bfloat16 copy of fp32 masters, ``autocast`` leaves the
            residual stream in fp32, ``fp32`` is for tests.
        renderer: compiled or not.
    """

    trainee: Trainee
    tables: RenderTables
    precision: str
    patches_per_step: int = PATCHES_PER_STEP
    renderer: Any = render

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision {self.precision!r} is not one of {PRECISIONS}")

    def batch_size(self, bucket: Bucket) -> int:
        """Prompts per step, for about equal work in every bucket."""
        size = self.patches_per_step // bucket.patches
        return max(1, size - size % 8 if size > 8 else size)

    def objective(self, layout: Layout) -> Objective:
        """The bucket's objective at this precision."""
        return Objective(
            layout,
            self.tables,
            dtype=torch.float32 if self.precision == "fp32" else torch.bfloat16,
            autocast=self.precision == "autocast",
            renderer=self.renderer,
        )


class BucketStep:
    """Draws a batch, runs forward and backward and updates the trainee, as one call.

    ``loss`` and ``norm`` accumulate on the device between :meth:`take` calls.
    """

    def __init__(self, engine: Engine, layout: Layout, pool: Pool) -> None:
        self.bucket = layout.bucket
        self._trainee = engine.trainee
        self._objective = engine.objective(layout)
        self._pool = pool
        self._batch = engine.batch_size(layout.bucket)
        self._graph: torch.cuda.CUDAGraph | None = None
        device = engine.trainee.rate.device
        self._sums = torch.zeros(3, device=device)  # loss, gradient norm, steps

    @property
    def captured(self) -> bool:
        """Whether calls replay a graph."""
        return self._graph is not None

    def __call__(self) -> None:
        if self._graph is None:
            self._run()
        else:
            self._graph.replay()

    def take(self) -> tuple[float, float, int]:
        """Mean loss, mean gradient norm and number of steps since the last call; synchronises."""
        loss, norm, count = self._sums.tolist()
        self._sums.zero_()
        return loss / max(count, 1), norm / max(count, 1), int(count)

    def capture(self, memory_pool: Any) -> None:
        """Record the step as a CUDA graph. The trainee's state does not change.

        Graphs share one memory pool: they never run at the same time and leave nothing in it that
        is read after a replay.
        """
        trainee = self._trainee
        trainee.hold.fill_(1)
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_STEPS):
                self._run()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        trainee.zero_grad()
        gc.collect()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=memory_pool):
                self._run()
            self._graph = graph
        finally:
            trainee.zero_grad()
            trainee.hold.fill_(0)
            self._sums.zero_()

    def _run(self) -> None:
        self._trainee.zero_grad()
        loss = self._objective.loss(self._trainee.compute, self._pool.draw(self._batch))
        loss.backward()  # type: ignore[no-untyped-call]
        norm = self._trainee.update()
        self._sums += torch.stack((loss.detach(), norm, torch.ones_like(norm)))


def compile_blocks(network: TinyNetwork, *, dynamic: bool) -> None:
    """Compile the two repeated blocks, once per shape, where most of the time goes."""
    for block in (*network.visual.blocks, *network.language_model.layers):
        attention: Any = block.attn if hasattr(block, "attn") else block.self_attn
        # Our operators ignore the layer number; a differing one would compile each block anew.
        attention.layer = 0
        if hasattr(block.mlp, "layer"):
            block.mlp.layer = 0
        block.compile(dynamic=dynamic)


@functools.cache
def compiled_renderer() -> Any:
    """The renderer as fused kernels, compiled once per image shape."""
    return torch.compile(render, dynamic=False)


def prepare_backend() -> None:
    """Choose the kernels captured graphs are made of."""
    torch.set_float32_matmul_precision("high")
    # Its plans are built at run time, which a capture does not allow, and it rejects our mask.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # One entry per bucket shape, for blocks and renderer alike.
    torch._dynamo.config.recompile_limit = 64
    # A block that does not compile runs eagerly inside its graph instead of ending the run.
    torch._dynamo.config.suppress_errors = True


def new_memory_pool() -> Any:
    """A memory pool for the graphs of one run."""
    return torch.cuda.graph_pool_handle()
