"""Running the service until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Sequence
from types import FrameType

import uvicorn

from ..core import UsageError
from .config import ServiceConfig
from .connections import allow_open_files, guarded_protocol
from .heap import keep_heap_small
from .logs import configure_logs, log
from .notify import notify_systemd
from .service import Service


class Server(uvicorn.Server):
    """Uvicorn's server, around one service."""

    def __init__(self, service: Service) -> None:
        config = service.config
        super().__init__(
            uvicorn.Config(
                service.app,
                host=config.host,
                port=config.port,
                http=guarded_protocol(config.head_timeout_s, config.max_connections),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, round(config.drain_timeout_s)),
                ssl_certfile=config.tls_cert,
                ssl_keyfile=config.tls_key,
            )
        )
        self._service = service

    async def run_service(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop, then end the worker."""
        async with self._service.running():
            await self.serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: refuse new requests from now on, and finish those that run."""
        self._service.drain()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but an orderly end is not followed by dying of the signal after all."""
        with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


def bind(config: ServiceConfig) -> socket.socket:
    """The listening socket.

    Raises:
        UsageError: the address cannot be had.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot listen on {config.host} port {config.port}: {reason}") from None
    return listener


def serve(config: ServiceConfig, warnings: Sequence[str] = ()) -> int:
    """Run the service; returns the exit status.

    Args:
        warnings: lines for the log, about the configuration.

    Raises:
        UsageError, EngineError: it cannot start; one line says why.
    """
    service = Service(config)
    try:
        server = Server(service)
        server.config.load()
    except OSError as error:  # the certificate
        raise UsageError(f"tls_cert or tls_key cannot be used: {error}") from None
    listener = bind(config)
    configure_logs()
    allow_open_files(config.max_connections + 256)
    keep_heap_small()
    for warning in warnings:
        log("configuration", logging.WARNING, warning=warning)
    scheme = "https" if config.tls_cert else "http"
    host, port = listener.getsockname()[:2]
    log("listening", url=f"{scheme}://{host}:{port}", model=config.served_name)
    if not config.loopback and config.tls_cert is None:
        log("keys_travel_unencrypted", logging.WARNING, remedy="set tls_cert and tls_key")
    notify_systemd(f"READY=1\nSTATUS={service.state.reason}")
    asyncio.run(server.run_service([listener]))
    log("stopped")
    return 0
