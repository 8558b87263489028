"""Keeping a worker alive: start it, watch it, start it again with growing patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ..logs import log
from .messages import (
    EngineInfo,
    Fatal,
    FromWorker,
    JobMessage,
    Memory,
    Opened,
    ToWorker,
    WorkerSettings,
)
from .process import WorkerProcess

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
_HEALTHY_S = 60.0  # after that long without a fault, patience starts over


@dataclass(frozen=True)
class EngineState:
    """Whether requests can be answered, and if not, why."""

    ready: bool
    reason: str


class Supervisor:
    """Owns the worker.

    Args:
        on_message: called for every message about a job.
        on_lost: called with a reason when the worker is gone and with it whatever it was doing.
        on_ready: called when an engine is open.
        may_start: returns why the engine must not be opened now, or ``None``.
        stall_timeout_s: a busy worker that says nothing for so long is killed.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_message: Callable[[JobMessage], None],
        on_lost: Callable[[str], None],
        on_ready: Callable[[EngineInfo], None],
        may_start: Callable[[], str | None] = lambda: None,
        stall_timeout_s: float = 120.0,
        first_delay_s: float = FIRST_DELAY_S,
    ) -> None:
        self._settings = settings
        self._on_message = on_message
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._may_start = may_start
        self._stall_timeout_s = stall_timeout_s
        self._first_delay_s = first_delay_s
        self._worker: WorkerProcess | None = None
        self._stopping = False
        self._busy = 0
        self._last_sign = 0.0
        self.info: EngineInfo | None = None
        self.device_bytes = 0
        self.restarts = 0
        self.state = EngineState(False, "the engine is being opened")

    @property
    def pid(self) -> int | None:
        """Process id of the worker, if there is one."""
        return self._worker.pid if self._worker else None

    def send(self, message: ToWorker, busy: int) -> None:
        """Send to the worker, which from now on has ``busy`` jobs to say something about."""
        self._note_busy(busy)
        if self._worker is not None:
            self._worker.send(message)

    async def run(self) -> None:
        """Keep a worker running until :meth:`stop`."""
        loop = asyncio.get_running_loop()
        delay = self._first_delay_s
        while not self._stopping:
            reason = self._may_start()
            if reason is None:
                started = loop.time()
                reason = await self._live()
                if loop.time() - started > _HEALTHY_S:
                    delay = self._first_delay_s
            if self._stopping:
                return
            self.state = EngineState(False, reason)
            log("engine_lost", reason=reason, retry_in_s=delay)
            self._on_lost(reason)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY_S)
            self.restarts += 1
            self.state = EngineState(False, f"the engine is being opened again; before: {reason}")

    async def stop(self) -> None:
        """End the worker for good."""
        self._stopping = True
        self.state = EngineState(False, "the service is stopping")
        if self._worker is not None:
            await self._worker.stop()

    async def _live(self) -> str:
        """One worker's life; returns why it ended."""
        worker = self._worker = WorkerProcess(self._settings)
        watch = asyncio.create_task(self._watch(worker))
        failure = ""
        try:
            async for message in worker.messages():
                failure = self._take(message) or failure
        finally:
            watch.cancel()
            self._worker, self.info = None, None
        worker.kill()  # its connection is closed, so there is nothing left that it could do
        end = await worker.ended()
        return failure or f"the engine process {end}"

    def _take(self, message: FromWorker) -> str | None:
        self._last_sign = asyncio.get_running_loop().time()
        if isinstance(message, Opened):
            self.info = message.info
            self.state = EngineState(True, "ready")
            log("engine_ready", target=message.info.target, slots=message.info.slots)
            self._on_ready(message.info)
        elif isinstance(message, Fatal):
            return message.message
        elif isinstance(message, Memory):
            self.device_bytes = message.device_bytes
        else:
            self._on_message(message)
        return None

    def _note_busy(self, busy: int) -> None:
        if self._busy == 0:  # silence counts from the moment there is something to say
            self._last_sign = asyncio.get_running_loop().time()
        self._busy = busy

    def ease(self, busy: int) -> None:
        """Say how many jobs the worker still has."""
        self._note_busy(busy)

    async def _watch(self, worker: WorkerProcess) -> None:
        while True:
            await asyncio.sleep(self._stall_timeout_s / 8)
            silent = asyncio.get_running_loop().time() - self._last_sign
            if self._busy and silent > self._stall_timeout_s:
                log("engine_stalled", silent_s=round(silent, 1))
                worker.kill()
                return
