"""A device that carries out at once what is enqueued, and checks that it was enqueued in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


class FakeDevice:
    """Counts captures and replays; ``free_bytes`` limits what a plan may take."""

    torch_device = torch.device("cpu")
    stream = 0x57EA

    def __init__(self, compute_capability: str = "11.0", name: str = "Fake GPU") -> None:
        self.compute_capability, self.name = compute_capability, name
        self.captures = self.replays = self.eager_runs = 0
        self.free_bytes = 2**40
        self.in_order = False
        self.recording: list[Callable[[], None]] | None = None

    @contextmanager
    def ordered(self) -> Iterator[None]:
        assert not self.in_order, "ordered() must not be nested"
        self.in_order = True
        try:
            yield
        finally:
            self.in_order = False

    def capture(self, enqueue: Callable[[], None]) -> Callable[[], None]:
        assert self.in_order and self.recording is None
        self.recording = recorded = []
        try:
            enqueue()
        finally:
            self.recording = None
        assert recorded, "nothing was captured"
        self.captures += 1

        def replay() -> None:
            assert self.in_order, "a graph must be launched in the stream's order"
            self.replays += 1
            for run in recorded:
                run()

        return replay

    def submit(self, run: Callable[[], None]) -> None:
        """What a context does with its work: record it while capturing, else carry it out."""
        if self.recording is not None:
            self.recording.append(run)
        else:
            self.eager_runs += 1
            run()
