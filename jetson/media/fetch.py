"""Fetching an image by URL, so that a client cannot reach what it could not reach itself.

A name is resolved once, every address it has is checked, and the checked address is the one that is
dialled; so an answer that changes between check and use changes nothing. Each redirect starts over.
Messages never say what an address was or what was found there.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

import h11

from ..errors import ApiError, bad_request
from .addresses import is_public

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""``(host, port) -> addresses``; raises OSError."""
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial: TypeAlias = Callable[[str, int, str | None], Awaitable[Streams]]
"""``(address, port, TLS server name or None) -> streams``; raises OSError."""

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = (301, 302, 303, 307, 308)


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def dial(address: str, port: int, server_name: str | None) -> Streams:
    """Connect to an address; over TLS, for ``server_name``, where one is given."""
    context = ssl.create_default_context() if server_name is not None else None
    return await asyncio.open_connection(
        address, port, ssl=context, server_hostname=server_name if context else None
    )


@dataclass(frozen=True)
class FetchLimits:
    """What one fetch may cost."""

    max_bytes: int
    timeout_s: float
    redirects: int


class Fetcher:
    """Fetches over http and https, from their usual ports on public addresses only."""

    def __init__(self, limits: FetchLimits, resolve: Resolve = resolve, dial: Dial = dial) -> None:
        self._limits = limits
        self._resolve = resolve
        self._dial = dial

    async def fetch(self, url: str, param: str) -> bytes:
        """The body at ``url``.

        Raises:
            ApiError: 400 naming ``param``: refused, unreachable, too slow, too large, or not found.
        """
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                for _ in range(self._limits.redirects + 1):
                    found = await self._once(_parse(url, param), param)
                    if isinstance(found, bytes):
                        return found
                    url = urljoin(url, found)
        except TimeoutError:
            seconds = f"{self._limits.timeout_s:g}"
            raise bad_request(f"{param}: not fetched within {seconds} s", param) from None
        except (OSError, h11.ProtocolError, asyncio.IncompleteReadError):
            raise bad_request(f"{param}: the server cannot be reached", param) from None
        raise bad_request(f"{param}: more than {self._limits.redirects} redirects", param)

    async def _once(self, url: SplitResult, param: str) -> bytes | str:
        """One request: the body, or where to go next."""
        host, port = url.hostname or "", _PORTS[url.scheme]
        addresses = await self._resolve(host, port)
        if not addresses or not all(map(is_public, addresses)):
            raise bad_request(f"{param}: this host may not be fetched from", param)
        name = host if url.scheme == "https" else None
        reader, writer = await self._dial(addresses[0], port, name)
        try:
            return await self._exchange(url, reader, writer, param)
        finally:
            writer.close()

    async def _exchange(
        self,
        url: SplitResult,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        param: str,
    ) -> bytes | str:
        connection = h11.Connection(h11.CLIENT)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = [
            ("Host", url.netloc),
            ("Accept", "image/*"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "edgevlm"),
            ("Connection", "close"),
        ]
        request = h11.Request(method="GET", target=target, headers=headers)
        writer.write(connection.send(request) + connection.send(h11.EndOfMessage()))
        await writer.drain()
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Response):
                location = self._check_head(event, param)
                if location is not None:
                    return location
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.max_bytes:
                    raise self._too_large(param)
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                return bytes(body)

    def _check_head(self, response: h11.Response, param: str) -> str | None:
        """Where it redirects to, if it does."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers
        }
        if response.status_code in _REDIRECTS and "location" in headers:
            return headers["location"]
        if response.status_code != 200:
            message = f"{param}: the server answered with status {response.status_code}"
            raise bad_request(message, param)
        if headers.get("content-encoding", "identity") != "identity":
            raise bad_request(f"{param}: the server sent it compressed", param)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._limits.max_bytes:
            raise self._too_large(param)
        return None

    def _too_large(self, param: str) -> ApiError:
        return bad_request(f"{param}: more than {self._limits.max_bytes} bytes", param)


def _parse(url: str, param: str) -> SplitResult:
    """Check everything about a URL that can be checked without asking anyone."""
    try:
        parts = urlsplit(url)
        port = parts.port
        url.encode("ascii")
    except ValueError:
        raise bad_request(f"{param}: not a URL", param) from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise bad_request(f"{param}: only http and https URLs are fetched", param)
    if parts.username is not None or parts.password is not None:
        raise bad_request(f"{param}: a URL with a user or password is not fetched", param)
    if port not in (None, _PORTS[parts.scheme]):
        raise bad_request(f"{param}: only the ports 80 (http) and 443 (https) are used", param)
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise bad_request(f"{param}: not a URL", param)
    return parts
