"""Reading a JSON body, within its size and its time."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import Request

from ...runtime.json_cursor import JsonCursor
from ..errors import ApiError, bad_request


async def read_json(request: Request, max_bytes: int, timeout_s: float) -> tuple[JsonCursor, int]:
    """The body, which must be a JSON object, and its size in bytes.

    A body of another type is refused, also because a browser sends such ones for any web page
    without asking the user.

    Raises:
        ApiError: 400, 408, 413 or 415.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = f"the Content-Type must be application/json, not {kind[:60] or 'absent'}"
        raise ApiError(415, message)
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {timeout_s:g} s") from None
    parsed = _parse(bytes(body)) if len(body) < 65536 else await asyncio.to_thread(_parse, body)
    if not isinstance(parsed, dict):
        raise bad_request("the body must be a JSON object")
    return JsonCursor(parsed), len(body)


def _parse(body: bytes | bytearray) -> Any:
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise bad_request(f"the body is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise bad_request(f"the body is not valid JSON at {place}: {error.msg}") from None
    except (ValueError, RecursionError):  # endless digits, endless brackets
        raise bad_request("the body is JSON that cannot be read") from None


def _refuse_constant(name: str) -> NoReturn:
    raise bad_request(f"the body is not valid JSON: {name} is not a JSON number")


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(413, f"the body has more than the {max_bytes} bytes accepted")
