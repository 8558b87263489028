"""Starting the worker process and talking to it from an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from .messages import FromWorker, Stop, ToWorker, WorkerSettings


class WorkerProcess:
    """One running worker. Reading and writing happen in two threads, so neither blocks the loop."""

    def __init__(self, settings: WorkerSettings) -> None:
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __package__ or "", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[FromWorker | None] = asyncio.Queue()
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outbox.put(settings)
        for target in (self._read, self._write):
            Thread(target=target, name=f"worker-{target.__name__}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        """Queue a message; lost without a word if the process is gone."""
        self._outbox.put(message)

    async def messages(self) -> AsyncIterator[FromWorker]:
        """What the worker says, until it is gone."""
        while (message := await self._received.get()) is not None:
            yield message

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def stop(self, patience_s: float = 5.0) -> None:
        """Ask it to leave; kill it if it does not."""
        self.send(Stop())
        deadline = self._loop.time() + patience_s
        while self._process.poll() is None and self._loop.time() < deadline:
            await asyncio.sleep(0.02)
        self.kill()
        await self.ended()

    async def ended(self) -> str:
        """Wait for its end; returns how it ended, in words."""
        code = await asyncio.to_thread(self._process.wait)
        self._outbox.put(None)
        return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"

    def _read(self) -> None:
        message: FromWorker | None = None
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                message = None
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self._received.put_nowait, message)
            if message is None:
                return

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:
                return
        with contextlib.suppress(OSError):
            self._connection.close()
