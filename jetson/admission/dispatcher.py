"""From the queue into the engine: who runs, who waits, who has waited too long."""

from __future__ import annotations

import asyncio
import itertools
import math

from ..errors import ApiError
from ..metrics import Metrics
from ..telemetry.energy import EnergyMeter
from ..worker.messages import (
    Cancel,
    Count,
    Done,
    EngineInfo,
    JobMessage,
    Piece,
    Refused,
    Submit,
)
from ..worker.supervisor import Supervisor
from .fair_queue import FairQueue
from .job import Job
from .thermal import ThermalGuard

LOOKAHEAD = 1  # requests sent beyond the slots, so that the next one is prepared in time


class Dispatcher:
    """Feeds one worker. Everything happens in one event loop.

    Args:
        queue_timeout_s: longest wait before the engine takes a request.
        total_timeout_s: longest time from arrival to the end.
    """

    def __init__(
        self,
        queue: FairQueue[Job],
        metrics: Metrics,
        energy: EnergyMeter,
        thermal: ThermalGuard,
        *,
        queue_timeout_s: float,
        total_timeout_s: float,
    ) -> None:
        self._queue = queue
        self._metrics = metrics
        self._energy = energy
        self._thermal = thermal
        self._queue_timeout_s = queue_timeout_s
        self._total_timeout_s = total_timeout_s
        self._running: dict[int, Job] = {}
        self._numbers = itertools.count(1)
        self._slots = 1
        self._mean_s = 1.0  # of a request's time in the engine
        self.draining = False
        self.supervisor: Supervisor  # set by whoever connects the two

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """Requests in the engine."""
        return len(self._running)

    def next_number(self) -> int:
        """A number for a new job."""
        return next(self._numbers)

    def submit(self, client: str, work: Submit | Count) -> Job:
        """Queue a request.

        Raises:
            ApiError: 429 or 503 with the time after which to try again.
        """
        state = self.supervisor.state
        if self.draining:
            raise ApiError(503, "the service is stopping", code="draining", retry_after=30)
        if not state.ready:
            raise ApiError(503, state.reason, code="engine_not_ready", retry_after=10)
        loop = asyncio.get_running_loop()
        job = Job(client, work, loop.time())
        self._queue.put(client, job, self._retry_after())
        job.timers = [
            loop.call_later(self._queue_timeout_s, self._waited_too_long, job),
            loop.call_later(self._total_timeout_s, self._took_too_long, job),
        ]
        self.pump()
        return job

    def cancel(self, job: Job) -> None:
        """Stop a request that nobody wants any more."""
        if job.over or job.cancelled:
            return
        job.cancelled = True
        if self._queue.remove(job.client, job):
            self._end(job, "cancelled")
        else:
            self.supervisor.send(Cancel(job.number), self.running)

    def pump(self) -> None:
        """Send as many waiting requests as the engine can take."""
        limit = self._thermal.slots(self._slots)
        limit += 0 if self._thermal.hot else LOOKAHEAD
        while self.running < limit and self.supervisor.state.ready:
            job = self._queue.pop()
            if job is None:
                break
            job.started = asyncio.get_running_loop().time()
            job.timers[0].cancel()
            job.energy_mark = self._energy.share(job.started, self.running)
            self._running[job.number] = job
            self.supervisor.send(job.work, self.running)
        self._metrics.depth(self.waiting, self.running)

    def on_ready(self, info: EngineInfo) -> None:
        """An engine is open."""
        self._slots = info.slots
        self.pump()

    def on_message(self, message: JobMessage) -> None:
        """The worker said something about a job."""
        job = self._running.get(message.job)
        if job is None:  # ended by a time-out meanwhile
            return
        if isinstance(message, Piece):
            if job.first_piece is None:
                job.first_piece = asyncio.get_running_loop().time()
                self._metrics.first_token(job.first_piece - job.arrived)
            job.put(message)
            return
        self._leave(job)
        if isinstance(message, Refused):
            error = ApiError(500 if message.fault else 400, message.message, param=message.param)
            self._end(job, "error", error)
        else:
            reason = message.finish_reason if isinstance(message, Done) else "counted"
            self._end(job, reason)
            job.put(message)
        self.pump()

    def on_lost(self, reason: str) -> None:
        """The worker is gone; what was in it cannot be answered."""
        for job in list(self._running.values()):
            self._leave(job)
            message = f"the engine was lost while it worked on this request: {reason}"
            error = ApiError(503, message, code="engine_lost", retry_after=10)
            self._end(job, "engine_lost", error)
        self._metrics.depth(self.waiting, self.running)

    def _leave(self, job: Job) -> None:
        now = asyncio.get_running_loop().time()
        share = self._energy.share(now, self.running)
        if share is not None and job.energy_mark is not None:
            job.energy_j = share - job.energy_mark
        del self._running[job.number]
        self.supervisor.ease(self.running)
        if job.started is not None:
            self._mean_s += 0.2 * (now - job.started - self._mean_s)

    def _end(self, job: Job, reason: str, error: ApiError | None = None) -> None:
        if job.over:  # told already, by a time-out
            return
        job.ended = asyncio.get_running_loop().time()
        for timer in job.timers:
            timer.cancel()
        if error is not None:
            job.put(error)
        self._metrics.request_ended(reason, job.ended - job.arrived, job.energy_j)

    def _waited_too_long(self, job: Job) -> None:
        if not self._queue.remove(job.client, job):
            return
        message = f"no slot became free within {self._queue_timeout_s:g} s"
        retry = self._retry_after()
        self._metrics.rejected("queue_timeout")
        self._end(job, "timeout", ApiError(503, message, code="queue_timeout", retry_after=retry))

    def _took_too_long(self, job: Job) -> None:
        self.cancel(job)
        message = f"not finished within {self._total_timeout_s:g} s"
        self._end(job, "timeout", ApiError(504, message, code="timeout"))

    def _retry_after(self) -> int:
        """When a slot is likely to be free, in seconds."""
        turns = (self.waiting + self.running) / max(1, self._slots)
        return min(60, max(1, math.ceil(turns * self._mean_s)))
