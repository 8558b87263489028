"""A TensorRT build in the background: progress shown as it goes, Ctrl-C heard at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from ..core import EngineError
from .targets import Progress

Result = TypeVar("Result")


class BuildCancelled(EngineError):
    """The user stopped the build."""

    exit_code = 130


class BuildMonitor:
    """Turns TensorRT's nested phases into one fraction. ``sink`` is what the library calls.

    Each phase fills one step of its parent. Callbacks may come from any thread.
    """

    def __init__(self, trt: Any, on_progress: Progress) -> None:
        self.cancelled = threading.Event()
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._phases: dict[str, _Phase] = {}
        owner = self

        class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # known only at run time
            def __init__(self) -> None:
                trt.IProgressMonitor.__init__(self)

            def phase_start(self, name: str, parent: str | None, steps: int) -> None:
                owner.start(name, parent, steps)

            def step_complete(self, name: str, step: int) -> bool:
                owner.step(name, step)
                return not owner.cancelled.is_set()

            def phase_finish(self, name: str) -> None:
                owner.finish(name)

        self.sink = Monitor()

    def start(self, name: str, parent: str | None, steps: int) -> None:
        with self._lock:
            above = self._phases.get(parent or "")
            scale = above.scale / above.steps if above else 1.0
            begin = above.begin + above.done * scale if above else 0.0
            self._phases[name] = _Phase(steps, begin, scale)
            self._on_progress(name, begin)

    def step(self, name: str, step: int) -> None:
        with self._lock:
            phase = self._phases.get(name)
            if phase:
                phase.done = step + 1
                done = min(1.0, phase.begin + phase.done * phase.scale / phase.steps)
                self._on_progress(name, done)

    def finish(self, name: str) -> None:
        with self._lock:
            phase = self._phases.pop(name, None)
            if phase:  # it may end before its last step
                self._on_progress(name, min(1.0, phase.begin + phase.scale))


class _Phase:
    """``begin`` is where it starts in the whole, ``scale`` its share of it."""

    def __init__(self, steps: int, begin: float, scale: float) -> None:
        self.steps, self.begin, self.scale, self.done = steps, begin, scale, 0


def run_cancellable(work: Callable[[], Result], cancelled: threading.Event, what: str) -> Result:
    """Run ``work`` in a thread of its own, so that Ctrl-C reaches this one.

    TensorRT calls back from inside; an exception must not cross it. So Ctrl-C only sets
    ``cancelled`` and ``work`` notices; a second one does not wait for that.

    Raises:
        BuildCancelled: the user pressed Ctrl-C.
    """
    results: list[Result] = []
    failures: list[BaseException] = []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=target, name="tensorrt-build", daemon=True)
    with _interrupt_sets(cancelled):
        thread.start()
        while thread.is_alive():
            thread.join(0.1)
    if cancelled.is_set():
        raise BuildCancelled(f"{what}: build cancelled; nothing was written")
    if failures:
        raise failures[0]
    return results[0]


@contextmanager
def _interrupt_sets(event: threading.Event) -> Iterator[None]:
    """Make the first Ctrl-C set ``event`` instead of raising, where this thread receives it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            signal.default_int_handler(number, frame)
        event.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
