"""Around every HTTP request: who asks and from where, one log line, no exception that escapes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import RequestError
from .api.answering import json_response
from .api.event_stream import ClientGone
from .api.fields import as_api_error
from .errors import ApiError
from .keys import KeyRing
from .logs import log, log_failure
from .metrics import Metrics

OPEN_PATHS = ("/", "/health", "/health/ready")
"""What needs no key: the page without its answers, and whether the service lives."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_GONE = 499
_LINGER_S = 1.0


@dataclass
class Visit:
    """One request as the log sees it."""

    id: str
    client: str
    status: int = 0
    body_read: bool = False
    details: dict[str, Any] = field(default_factory=dict)


class Gate:
    """Wraps the routes.

    Args:
        keys: the clients; ``None`` lets everybody in who is on this machine.
    """

    def __init__(self, app: ASGIApp, keys: KeyRing | None, metrics: Metrics) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"] = self  # makes the router raise instead of answering in plain text
        headers = Headers(scope=scope)
        wanted = headers.get("x-request-id", "")
        visit = Visit(
            id=wanted if _REQUEST_ID.fullmatch(wanted) else secrets.token_hex(8),
            client=scope["client"][0] if scope.get("client") else "local",
        )
        scope["edgevlm"] = visit
        begin = time.perf_counter()

        async def observed_receive() -> Message:
            message = await receive()
            visit.body_read = not message.get("more_body", False)
            return message

        async def observed_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                extra = [(b"x-request-id", visit.id.encode())]
                message["headers"] = [*message.get("headers", ()), *extra]
                self._metrics.responded(visit.status)
            await send(message)

        try:
            await self._guarded(scope, headers, visit, observed_receive, observed_send)
        finally:
            self._log(scope, visit, time.perf_counter() - begin)

    async def _guarded(
        self, scope: Scope, headers: Headers, visit: Visit, receive: Receive, send: Send
    ) -> None:
        try:
            self._check_origin(headers)
            if scope["path"] not in OPEN_PATHS:
                self._check_key(headers, visit)
            await self._app(scope, receive, send)
            return
        except ApiError as raised:
            error = raised
        except RequestError as raised:
            error = as_api_error(raised)
        except HTTPException as raised:
            allow = (raised.headers or {}).get("Allow")
            error = ApiError(raised.status_code, str(raised.detail), allow=allow)
        except ClientGone:
            visit.status = _CLIENT_GONE
            return
        except asyncio.CancelledError:  # the time to drain is over
            error = ApiError(503, "the service is stopping", code="draining")
        except Exception as raised:
            log_failure("request_failed", raised, request_id=visit.id)
            error = ApiError(500, f"internal error; the log has it under {visit.id}")
        await self._refuse(error, scope, visit, receive, send)

    async def _refuse(
        self, error: ApiError, scope: Scope, visit: Visit, receive: Receive, send: Send
    ) -> None:
        visit.details |= {"code": error.code, "param": error.param}
        if visit.status:  # too late for a status; the connection just ends
            return
        self._metrics.rejected(error.code or "invalid_request")
        response = json_response(error.body(), error.headers, error.status)
        if scope["method"] in ("GET", "HEAD") or visit.body_read:
            await response(scope, receive, send)
            return
        # Closing while the client still sends would reset the connection and lose the answer.
        response.headers["connection"] = "close"
        head = {"type": "http.response.start", "status": error.status}
        await send({**head, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while (await receive()).get("more_body", False):
                    pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _check_origin(self, headers: Headers) -> None:
        """Keep web pages of other sites out, also those whose name was made to lead here."""
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
        if self._keys is None and name.lower() not in LOCAL_NAMES:
            raise ApiError(403, "without keys this service answers to localhost only")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise ApiError(403, "requests from other web pages are not accepted")

    def _check_key(self, headers: Headers, visit: Visit) -> None:
        if self._keys is None:
            return
        try:
            self._keys.reload()
        except Exception as error:  # the file is being edited, or the disk is gone
            log("keys_unreadable", logging.ERROR, error=str(error))
        scheme, _, key = headers.get("authorization", "").partition(" ")
        client = self._keys.client(key.strip()) if scheme.lower() == "bearer" else None
        if client is None:
            message = "a key is needed: send the header Authorization: Bearer KEY"
            raise ApiError(401, message, code="unauthorized")
        visit.client = client

    def _log(self, scope: Scope, visit: Visit, seconds: float) -> None:
        log(
            "request",
            request_id=visit.id,
            client=visit.client,
            method=scope["method"],
            # What a client made up stays out: the path of no route, or of no model.
            path=scope["path"] if "endpoint" in scope and visit.status != 404 else "(unknown)",
            status=visit.status,
            ms=round(seconds * 1e3, 1),
            **{name: value for name, value in visit.details.items() if value is not None},
        )
