"""Noticing that a client has gone."""

from __future__ import annotations

from starlette.types import Receive


async def when_disconnected(receive: Receive) -> None:
    """Return once the connection is closed. Call it after the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass
