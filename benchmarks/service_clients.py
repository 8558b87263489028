"""Clients that put a mix of requests to a service and check every answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from .service_mix import Planned, plan

PATH = "/v1/chat/completions"
PATIENCE_S = 120.0
_BUSY = (429, 503)


@dataclass
class Outcome:
    """What the clients saw. ``wrong`` names every answer that was not as it had to be."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0


async def answers_alone(url: str, bodies: Sequence[dict[str, Any]]) -> list[str]:
    """Each question's answer with nothing else running."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        responses = [await client.post(PATH, json=body) for body in bodies]
    return [_text(response.raise_for_status().json()) for response in responses]


async def run_clients(
    url: str,
    bodies: Sequence[dict[str, Any]],
    expected: Sequence[str],
    *,
    clients: int,
    requests: int,
    seed: int,
) -> Outcome:
    """``clients`` clients, each with ``requests`` requests one after the other."""
    outcome = Outcome()
    begin = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        mixes = [plan(list(bodies), requests, seed + number) for number in range(clients)]
        await asyncio.gather(*(_client(client, mix, expected, outcome) for mix in mixes))
    outcome.seconds = time.perf_counter() - begin
    return outcome


async def _client(
    client: httpx.AsyncClient, mix: Any, expected: Sequence[str], outcome: Outcome
) -> None:
    for planned in mix:
        try:
            await _one(client, planned, expected, outcome)
        except httpx.HTTPError as error:
            outcome.wrong.append(f"{type(error).__name__} for question {planned.key}")


async def _one(
    client: httpx.AsyncClient, planned: Planned, expected: Sequence[str], outcome: Outcome
) -> None:
    begin = time.perf_counter()
    if planned.key is None:
        response = await client.post(PATH, json=planned.body)
        outcome.counts["malformed"] += 1
        if response.status_code != 400:
            outcome.wrong.append(f"a wrong request was answered with {response.status_code}")
        return
    if planned.cancel_after is not None:
        await _leave(client, planned)
        outcome.counts["cancelled"] += 1
        return
    text, tokens = await (_streamed if planned.body["stream"] else _plain)(client, planned.body)
    outcome.latencies_s.append(time.perf_counter() - begin)
    outcome.counts["streamed" if planned.body["stream"] else "plain"] += 1
    outcome.tokens += tokens
    if text != expected[planned.key]:
        outcome.wrong.append(f"question {planned.key}: {text!r}, alone {expected[planned.key]!r}")


async def _plain(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, int]:
    response = await client.post(PATH, json=body)
    if response.status_code in _BUSY:
        raise httpx.TransportError(f"refused with {response.status_code}")
    found = response.raise_for_status().json()
    return _text(found), found["usage"]["completion_tokens"]


async def _streamed(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, int]:
    asked = {**body, "stream_options": {"include_usage": True}}
    text, tokens = "", 0
    async with client.stream("POST", PATH, json=asked) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                raise httpx.TransportError(chunk["error"]["message"])
            text += "".join(c["delta"].get("content") or "" for c in chunk["choices"])
            tokens = chunk.get("usage", {}).get("completion_tokens", tokens)
    return text, tokens


async def _leave(client: httpx.AsyncClient, planned: Planned) -> None:
    """Go away in the middle: after a few pieces, or while an unstreamed answer is being made."""
    if not planned.body["stream"]:
        with contextlib.suppress(httpx.TimeoutException):
            await client.post(PATH, json=planned.body, timeout=0.02)
        return
    async with client.stream("POST", PATH, json=planned.body) as response:
        seen = 0
        async for line in response.aiter_lines():
            seen += line.startswith("data: {")
            if seen > (planned.cancel_after or 0):
                return


def _text(response: dict[str, Any]) -> str:
    return str(response["choices"][0]["message"]["content"])
