"""A bounded queue that takes clients in turn, so that one cannot keep the others waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from ..errors import ApiError

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First in, first out within a client; one request each between clients.

    Args:
        size: entries in all.
        per_client: entries of one client.
    """

    def __init__(self, size: int, per_client: int) -> None:
        self._size = size
        self._per_client = per_client
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def put(self, client: str, entry: T, retry_after: int) -> None:
        """Append ``entry`` to its client's line.

        Raises:
            ApiError: 429 if the client has too many waiting, 503 if all clients together have.
        """
        line = self._lines.get(client, ())
        if len(line) >= self._per_client:
            raise ApiError(
                429,
                f"you have {len(line)} requests waiting; at most {self._per_client} may wait",
                code="client_queue_full",
                retry_after=retry_after,
            )
        if len(self) >= self._size:
            raise ApiError(
                503,
                f"{self._size} requests are waiting already; no more may wait",
                code="queue_full",
                retry_after=retry_after,
            )
        self._lines.setdefault(client, deque()).append(entry)

    def pop(self) -> T | None:
        """Take the next entry: the oldest of the client whose turn it is."""
        if not self._lines:
            return None
        client, line = self._lines.popitem(last=False)
        entry = line.popleft()
        if line:
            self._lines[client] = line  # to the end: the others come first
        return entry

    def remove(self, client: str, entry: T) -> bool:
        """Take an entry out wherever it waits; false if it does not."""
        line = self._lines.get(client)
        if line is None or entry not in line:
            return False
        line.remove(entry)
        if not line:
            del self._lines[client]
        return True

    def drain(self) -> list[T]:
        """Take everything out."""
        entries = [entry for line in self._lines.values() for entry in line]
        self._lines.clear()
        return entries
