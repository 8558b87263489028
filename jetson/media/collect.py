"""All images of a request: found by where they stand, brought in as bytes, checked."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..config import ServiceConfig
from ..errors import bad_request
from .fetch import Fetcher, FetchLimits
from .folder import read_allowed_file
from .probe import count_pixels

_TOGETHER = 4  # fetches of one request at a time


@dataclass(frozen=True)
class Collected:
    """The encoded images by where they stand in the request, and their pixels in all."""

    images: Mapping[str, bytes]
    pixels: int


class Collector:
    """Brings images in under the service's limits."""

    def __init__(self, config: ServiceConfig, fetcher: Fetcher | None = None) -> None:
        self._max_images = config.max_images
        self._max_bytes = int(config.max_image_mb * 1e6)
        self._max_pixels = int(config.max_image_megapixels * 1e6)
        self._max_request_pixels = int(config.max_request_megapixels * 1e6)
        self._folder: Path | None = config.media_folder
        self._fetcher = fetcher
        if fetcher is None and config.media_fetch:
            limits = FetchLimits(self._max_bytes, config.media_timeout_s, config.media_redirects)
            self._fetcher = Fetcher(limits)

    async def collect(self, urls: Mapping[str, str]) -> Collected:
        """Bring in and check everything.

        Args:
            urls: by the place in the request.

        Raises:
            ApiError: 400 naming the place.
        """
        if len(urls) > self._max_images:
            message = f"{len(urls)} images; at most {self._max_images} are accepted"
            raise bad_request(message, next(iter(urls)))
        gate = asyncio.Semaphore(_TOGETHER)

        async def one(where: str, url: str) -> tuple[str, bytes, int]:
            async with gate:
                data = await self._read(where, url)
                pixels = await asyncio.to_thread(count_pixels, data, self._max_pixels, where)
                return where, data, pixels

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(where, url)) for where, url in urls.items()]
        except* Exception as errors:
            raise _first(errors) from None
        results = [task.result() for task in tasks]
        pixels = sum(count for _, _, count in results)
        if pixels > self._max_request_pixels:
            limit = self._max_request_pixels
            message = f"the images have {pixels} pixels together; at most {limit} are accepted"
            raise bad_request(message, next(iter(urls)))
        return Collected({where: data for where, data, _ in results}, pixels)

    async def _read(self, where: str, url: str) -> bytes:
        scheme = url[:16].partition(":")[0].lower()
        if scheme == "data":
            return await asyncio.to_thread(self._decode, where, url)
        if scheme in ("http", "https"):
            if self._fetcher is None:
                raise bad_request(
                    f"{where}: this service does not fetch URLs; send the image as a data: URI",
                    where,
                )
            return await self._fetcher.fetch(url, where)
        if scheme == "file":
            return await asyncio.to_thread(
                read_allowed_file, url, self._folder, self._max_bytes, where
            )
        raise bad_request(f"{where}: must be a data:, http: or https: URL", where)

    def _decode(self, where: str, url: str) -> bytes:
        head, comma, payload = url.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            message = f"{where}: must have the form data:image/...;base64,... (base64 only)"
            raise bad_request(message, where)
        try:
            data = base64.b64decode("".join(payload.split()), validate=True)
        except (binascii.Error, ValueError):
            raise bad_request(f"{where}: not valid base64", where) from None
        if len(data) > self._max_bytes:
            raise bad_request(f"{where}: more than {self._max_bytes} bytes", where)
        return data


def _first(errors: BaseExceptionGroup[Exception]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
