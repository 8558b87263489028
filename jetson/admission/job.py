"""One request on its way: what it asks, where it stands, and what has come back so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ..errors import ApiError
from ..worker.messages import Count, Counted, Done, Piece, Submit

JobEvent: TypeAlias = Piece | Done | Counted | ApiError


@dataclass(eq=False)
class Job:
    """A request in the queue or in the engine.

    Times are those of the event loop's clock, which no change of the date moves.

    Attributes:
        work: what is sent to the worker.
        energy_mark: the meter's share when it started, in joules.
        energy_j: its part of the energy, once it has ended; ``None`` without a power sensor.
    """

    client: str
    work: Submit | Count
    arrived: float
    started: float | None = None
    first_piece: float | None = None
    ended: float | None = None
    energy_mark: float | None = None
    energy_j: float | None = None
    cancelled: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    _events: asyncio.Queue[JobEvent] = field(default_factory=asyncio.Queue)

    @property
    def number(self) -> int:
        return self.work.job

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.ended is not None

    def put(self, event: JobEvent) -> None:
        """Add an event; after the last one, nothing."""
        self._events.put_nowait(event)

    async def events(self) -> AsyncIterator[Piece | Done | Counted]:
        """Everything up to the last event.

        Raises:
            ApiError: the request failed.
        """
        while True:
            event = await self._events.get()
            if isinstance(event, ApiError):
                raise event
            yield event
            if not isinstance(event, Piece):
                return
