"""The parts of the service, put together around one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from ..core import open_manifest
from ..runtime import SamplingParams
from .admission.dispatcher import Dispatcher
from .admission.fair_queue import FairQueue
from .admission.job import Job
from .admission.memory import MemoryGuard
from .admission.thermal import ThermalGuard
from .api.fields import Defaults
from .api.routes import make_router
from .config import ServiceConfig
from .gate import Gate
from .keys import KeyFile, KeyRing
from .media.collect import Collector
from .metrics import Metrics
from .notify import notify_systemd
from .telemetry import Monitor, Snapshot, Telemetry
from .telemetry.energy import EnergyMeter
from .telemetry.memory import MemoryReading, read_memory, resident_bytes
from .worker.messages import EngineInfo, WorkerSettings
from .worker.supervisor import EngineState, Supervisor

_LOAD_HEADROOM = 512 * 2**20


class Service:
    """Everything that lives as long as the server does.

    Args:
        telemetry: the machine; tests pass one that is not there.
        opener: the function in the worker that opens the engine, ``module:function``.

    Raises:
        UsageError, EngineError: the configuration names files that are missing or wrong.
    """

    def __init__(
        self,
        config: ServiceConfig,
        *,
        telemetry: Telemetry | None = None,
        opener: str | None = None,
        collector: Collector | None = None,
    ) -> None:
        self.config = config
        self.started = int(time.time())
        self.settings = _worker_settings(config, opener)
        keys = KeyRing(KeyFile(config.keys_file)) if config.keys_file else None
        self.metrics = Metrics()
        self.energy = EnergyMeter()
        self.thermal = ThermalGuard(config.thermal_limit_c)
        self.collector = collector or Collector(config)
        self.dispatcher = Dispatcher(
            FairQueue[Job](config.queue_size, config.queue_per_client),
            self.metrics,
            self.energy,
            self.thermal,
            queue_timeout_s=config.queue_timeout_s,
            total_timeout_s=config.total_timeout_s,
        )
        self.supervisor = Supervisor(
            self.settings,
            on_message=self.dispatcher.on_message,
            on_lost=self._on_lost,
            on_ready=self._on_ready,
            may_start=self._may_start,
            stall_timeout_s=config.stall_timeout_s,
        )
        self.dispatcher.supervisor = self.supervisor
        self.monitor = Monitor(
            telemetry or Telemetry(), config.telemetry_interval_s, self._on_snapshot
        )
        self.memory = MemoryGuard(
            self._read_memory, self.held_bytes, config.min_free_memory_mb * 2**20
        )
        self.defaults = Defaults(
            config.served_name, SamplingParams(max_tokens=config.max_completion_tokens)
        )
        self.app: ASGIApp = Gate(make_router(self), keys, self.metrics)

    @property
    def state(self) -> EngineState:
        """Whether requests can be answered."""
        if self.dispatcher.draining:
            return EngineState(False, "the service is stopping")
        return self.supervisor.state

    def held_bytes(self) -> int:
        """Memory of both processes, and the GPU's where it is the same memory."""
        pids = [os.getpid(), *([self.supervisor.pid] if self.supervisor.pid else [])]
        unified = self.monitor.telemetry.board.unified
        shared = self.supervisor.device_bytes if unified else 0
        return resident_bytes(self.monitor.telemetry.sysroot, pids) + shared

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the background tasks, and end them and the worker afterwards."""
        tasks = [
            asyncio.create_task(self.monitor.run()),
            asyncio.create_task(self.supervisor.run()),
        ]
        try:
            yield
        finally:
            await self.supervisor.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def drain(self) -> None:
        """Take no more requests; those that are here go on."""
        self.dispatcher.draining = True
        notify_systemd("STOPPING=1\nSTATUS=finishing running requests")

    def _on_ready(self, info: EngineInfo) -> None:
        sampling = replace(self.defaults.sampling, **_typed(info.sampling))
        self.defaults = replace(self.defaults, sampling=sampling)
        self.dispatcher.on_ready(info)
        self._note_engine()

    def _on_lost(self, reason: str) -> None:
        self.dispatcher.on_lost(reason)
        self._note_engine()

    def _note_engine(self) -> None:
        supervisor = self.supervisor
        name, ready = self.config.served_name, supervisor.state.ready
        self.metrics.engine(ready, supervisor.restarts, name, supervisor.info)
        notify_systemd(f"STATUS={supervisor.state.reason}")

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        now = asyncio.get_running_loop().time()
        self.energy.observe(snapshot.power_w, now, self.dispatcher.running)
        self.thermal.observe(snapshot.hottest_c)
        self.metrics.board(snapshot, self.energy.total_j, self.held_bytes(), self.thermal.hot)
        self.dispatcher.pump()  # it may have become cooler

    def _read_memory(self) -> MemoryReading | None:
        return read_memory(self.monitor.telemetry.sysroot)

    def _may_start(self) -> str | None:
        """Opening an engine needs its files in memory, and some room to do so."""
        parts = (self.settings.llm, self.settings.visual)
        size = sum(f.stat().st_size for part in parts if part for f in Path(part).glob("*"))
        return self.memory.shortage(size + _LOAD_HEADROOM)


def _worker_settings(config: ServiceConfig, opener: str | None) -> WorkerSettings:
    """What the worker opens, after a look at whether it is there."""
    llm, visual = config.engine / "llm", config.engine / "visual"
    open_manifest(llm, "llm")
    pruning = {}
    if config.pruning_algorithm is not None:
        pruning = {
            "enabled": True,
            "algorithm": config.pruning_algorithm,
            "reduction_ratio": config.pruning_ratio,
        }
    settings = WorkerSettings(
        llm=str(llm),
        visual=str(visual) if visual.is_dir() else None,
        checkpoint=str(config.checkpoint) if config.checkpoint else None,
        device=config.device,
        slots=config.slots,
        pruning=pruning,
        routing=config.expert_routing,
    )
    return settings if opener is None else settings.opened_by(opener)


def _typed(sampling: dict[str, float]) -> dict[str, Any]:
    """The checkpoint's defaults; ``top_k`` counts."""
    return {name: int(v) if name == "top_k" else float(v) for name, v in sampling.items()}
