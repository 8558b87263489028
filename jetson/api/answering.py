"""From a parsed request to its answer: queue it, follow it, and stop it when nobody listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from ..admission.dispatcher import Dispatcher
from ..admission.job import Job
from ..metrics import Metrics
from ..worker.messages import Counted, Done, Piece, Submit
from .ask import Ask
from .disconnect import when_disconnected
from .event_stream import ClientGone, EventStream

START_S = 10.0
"""How long an error may still become an HTTP status before a stream's head is sent."""
_MAX_LISTED = 20


class Reply(Protocol):
    """Writes an answer in the words of one interface."""

    def opening(self) -> list[dict[str, Any]]:
        """The chunks a stream begins with."""

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """The chunks of one piece."""

    def closing(self, done: Done) -> list[dict[str, Any]]:
        """The chunks a stream ends with."""

    def whole(self, done: Done) -> dict[str, Any]:
        """The body of an answer that is not streamed."""


class Answer:
    """An ASGI response: one request answered.

    Args:
        job: queued already.
    """

    def __init__(
        self,
        ask: Ask,
        reply: Reply,
        job: Job,
        dispatcher: Dispatcher,
        metrics: Metrics,
        write_timeout_s: float,
    ) -> None:
        self.request = ask.request
        self._ask = ask
        self._reply = reply
        self._job = job
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._write_timeout_s = write_timeout_s
        self._headers = ignored_header(ask.ignored)
        self.done: Done | None = None
        self.text: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; whatever happens, the job is over afterwards.

        Raises:
            ApiError: the request failed before anything was sent.
            ClientGone: the client went away.
        """
        try:
            if self._ask.stream:
                await self._stream(scope, receive, send)
            else:
                await self._at_once(scope, receive, send)
        finally:
            self._dispatcher.cancel(self._job)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        events = self._events()
        first = asyncio.ensure_future(anext(events))
        gone = asyncio.create_task(when_disconnected(receive))
        try:
            await asyncio.wait({first, gone}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ClientGone
            if first.done():
                first.result()  # raises what the request failed with
            gone.cancel()
            chunks = self._chunks(first, events)
            await EventStream(chunks, self._headers, self._write_timeout_s)(scope, receive, send)
        finally:
            gone.cancel()
            first.cancel()

    async def _chunks(
        self, first: asyncio.Future[Piece | Done], events: AsyncIterator[Piece | Done]
    ) -> AsyncIterator[dict[str, Any]]:
        for chunk in self._reply.opening():
            yield chunk
        for chunk in self._written(await first):
            yield chunk
        async for event in events:
            for chunk in self._written(event):
                yield chunk

    def _written(self, event: Piece | Done) -> list[dict[str, Any]]:
        return self._reply.closing(event) if isinstance(event, Done) else self._reply.piece(event)

    async def _at_once(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = asyncio.create_task(self._whole())
        gone = asyncio.create_task(when_disconnected(receive))
        try:
            await asyncio.wait({body, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not body.done():
                raise ClientGone
            await json_response(body.result(), self._headers)(scope, receive, send)
        finally:
            gone.cancel()
            body.cancel()

    async def _whole(self) -> dict[str, Any]:
        async for event in self._events():
            if isinstance(event, Done):
                return self._reply.whole(event)
            self._reply.piece(event)
        raise AssertionError("a job ends with Done or an error")

    async def _events(self) -> AsyncIterator[Piece | Done]:
        async for event in self._job.events():
            if isinstance(event, Counted):
                raise AssertionError("only a Count is counted")
            if isinstance(event, Done):
                self.done = event
                self._metrics.answered(event)
            else:
                self.text.append(event.text)
            yield event


def json_response(
    body: dict[str, Any], headers: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    """A JSON response. Half a surrogate pair, which no client could read, becomes ``?``."""
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return HttpResponse(data, status, headers, media_type="application/json")


def ignored_header(ignored: tuple[str, ...]) -> dict[str, str]:
    """The header that lists fields that were given and mean nothing here."""
    if not ignored:
        return {}
    names = [quote(name[:80], safe="[].-_$ ", errors="replace") for name in ignored[:_MAX_LISTED]]
    if len(ignored) > _MAX_LISTED:
        names.append("...")
    return {"X-Ignored-Fields": ", ".join(names)}


def client_of(request: Request) -> str:
    """Who asks: the name that belongs to the key, or where the request comes from."""
    name: str = request.scope["edgevlm"].client
    return name


def submit(request: Request, dispatcher: Dispatcher, ask: Ask) -> Job:
    """Queue a request.

    Raises:
        ApiError: it cannot be queued.
    """
    work = Submit(dispatcher.next_number(), ask.request, ask.grammar)
    return dispatcher.submit(client_of(request), work)
