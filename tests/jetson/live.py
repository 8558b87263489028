"""A running service, in a thread of the test process, with its worker in a process of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai

from edgevlm.jetson.config import ServiceConfig
from edgevlm.jetson.serve import Server, bind
from edgevlm.jetson.service import Service

READY_S = 60.0


class LiveService:
    """Start with ``with``; it is ready then, unless told not to wait."""

    def __init__(
        self, engine: Path, parts: dict[str, Any] | None = None, wait: bool = True, **settings: Any
    ) -> None:
        settings = {"min_free_memory_mb": 16, "telemetry_interval_s": 0.2, **settings}
        self.config = ServiceConfig(engine=engine, port=0, **settings)
        self._parts = parts or {}
        self._wait = wait
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self.service: Service
        self.url = ""

    def __enter__(self) -> LiveService:
        self._thread.start()
        assert self._started.wait(30)
        wait_until(lambda: self._server.started)
        if self._wait:
            self.wait_ready()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def wait_ready(self) -> None:
        wait_until(lambda: self.service.state.ready, READY_S)

    @property
    def client(self) -> openai.OpenAI:
        """The official client."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    def chat(self, text: Any, **fields: Any) -> httpx.Response:
        """A plain request."""
        body = {"messages": [{"role": "user", "content": text}], **fields}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=60)

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series now."""
        value = self.service.metrics.registry.get_sample_value(f"edgevlm_{name}", labels)
        assert value is not None
        return value

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self.service = Service(self.config, **self._parts)
        self._server = Server(self.service)
        listener = bind(self.config)
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._started.set()
        await self._server.run_service([listener])


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> float:
    """Wait until ``holds()``; returns how long that took."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < seconds, f"not within {seconds} s"
        time.sleep(0.005)
    return time.monotonic() - begin
