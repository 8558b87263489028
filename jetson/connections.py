"""Connections that cost nothing: slow heads end in time, and idle ones make room for new ones."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def guarded_protocol(head_timeout_s: float, max_connections: int) -> type[H11Protocol]:
    """The HTTP protocol of a server with these limits."""

    class Guarded(H11Protocol):
        """Uvicorn's protocol, with a time limit for a request's head and a limit of connections."""

        _timer: asyncio.TimerHandle | None = None
        _idle_since = 0.0

        @property
        def idle(self) -> bool:
            """Whether no request is being answered here."""
            return self.cycle is None or self.cycle.response_complete

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_head()
            if len(self.connections) > max_connections:
                idle = [c for c in self.connections if isinstance(c, Guarded) and c.idle]
                idlest = min(idle, key=lambda c: c._idle_since)
                idlest.transport.close()
                self.connections.discard(idlest)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self.idle:
                self._stop_waiting()
            elif self._timer is None:
                self._wait_for_head()

        def on_response_complete(self) -> None:
            self._idle_since = self.loop.time()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_head(self) -> None:
            self._idle_since = self.loop.time()
            self._timer = self.loop.call_later(head_timeout_s, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Guarded


def allow_open_files(wanted: int) -> None:
    """Raise this process's limit of open files to ``wanted``, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
