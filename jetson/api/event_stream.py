"""Server-sent events, with a sign of life while nothing happens and an end when nobody reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

from ..errors import ApiError
from .disconnect import when_disconnected

KEEP_ALIVE_S = 15.0
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class ClientGone(Exception):
    """The client closed the connection, or does not read."""


class EventStream:
    """An ASGI response.

    Args:
        chunks: the chunks; an ApiError they raise becomes the last event.
        headers: in addition to those of a stream.
        write_timeout_s: how long the client may leave what was sent unread.
    """

    def __init__(
        self,
        chunks: AsyncIterator[dict[str, Any]],
        headers: dict[str, str],
        write_timeout_s: float,
    ) -> None:
        self._chunks = chunks
        self._headers = {**_HEADERS, **headers}
        self._write_timeout_s = write_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything.

        Raises:
            ClientGone: the client went away first.
        """
        raw = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in self._headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        gone = asyncio.create_task(when_disconnected(receive))
        try:
            await self._send_all(send, gone)
        finally:
            gone.cancel()

    async def _send_all(self, send: Send, gone: asyncio.Task[None]) -> None:
        lines = self._lines()
        pending: asyncio.Task[bytes] | None = None
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(lines))
                await asyncio.wait(
                    {pending, gone}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    raise ClientGone
                if not pending.done():
                    await self._write(send, b": waiting\n\n", more=True)
                    continue
                try:
                    line = pending.result()
                except StopAsyncIteration:
                    await self._write(send, b"", more=False)
                    return
                pending = None
                await self._write(send, line, more=True)
        finally:
            if pending is not None:
                pending.cancel()

    async def _lines(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield _event(json.dumps(chunk, ensure_ascii=False))
        except ApiError as error:
            yield _event(json.dumps(error.body(), ensure_ascii=False))
            return
        yield _event("[DONE]")

    async def _write(self, send: Send, body: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": body, "more_body": more}
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await send(message)
        except TimeoutError:
            raise ClientGone from None


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode("utf-8", "replace")
