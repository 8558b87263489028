"""The device a TensorRT engine runs on: one stream, ordered with torch's, and captured graphs.

Everything that needs a CUDA driver, other than the library itself, is behind :class:`Device`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

from ...core import UsageError
from ...core.gpu import present_gpu

Replay = Callable[[], None]


class Device(Protocol):
    """``torch_device`` holds every tensor; ``stream`` is the handle all work is enqueued on."""

    @property
    def torch_device(self) -> torch.device: ...

    @property
    def name(self) -> str: ...

    @property
    def compute_capability(self) -> str: ...

    @property
    def stream(self) -> int: ...

    def ordered(self) -> AbstractContextManager[None]:
        """What the block enqueues runs after all that torch has enqueued, and before the rest."""

    def capture(self, enqueue: Callable[[], None]) -> Replay:
        """Record what ``enqueue`` does with the stream; it is not carried out.

        Returns:
            A function that carries it out, at the addresses it had when recorded.
        """


class CudaDevice:
    """A CUDA device through torch."""

    def __init__(self, device: torch.device) -> None:
        gpu = present_gpu(device)
        assert gpu is not None
        self.torch_device = device
        self.name, self.compute_capability = gpu.name, gpu.compute_capability
        # Not the default stream: TensorRT would wait for the whole device around each step, and
        # a graph cannot be captured there.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @property
    def stream(self) -> int:
        return int(self._stream.cuda_stream)

    @contextmanager
    def ordered(self) -> Iterator[None]:
        current = torch.cuda.current_stream(self.torch_device)
        self._stream.wait_stream(current)
        yield
        current.wait_stream(self._stream)

    def capture(self, enqueue: Callable[[], None]) -> Replay:
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile; what they do is not ours to forbid.
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            enqueue()

        def replay() -> None:
            with torch.cuda.stream(self._stream):
                graph.replay()

        return replay


def open_device(name: str | None) -> Device:
    """The CUDA device called ``name`` (``"cuda"``, ``"cuda:1"``), or torch's current one.

    Raises:
        UsageError: there is no such device.
    """
    if not torch.cuda.is_available():
        raise UsageError(
            "a TensorRT engine needs an NVIDIA GPU and torch sees none here; `edgevlm doctor` says"
            " what is missing; on a CPU build with --target onnxruntime"
        )
    try:
        device = torch.device(name or f"cuda:{torch.cuda.current_device()}")
        if device.type != "cuda":
            raise RuntimeError("it is not a CUDA device")
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"--device {name}: TensorRT cannot use it: {reason}") from None
    return CudaDevice(device)
