"""The worker: what happens when it cannot start, hangs, or the HTTP side is gone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from edgevlm.jetson.api import event_stream
from edgevlm.jetson.api.event_stream import ClientGone, EventStream

from .conftest import SCRIPTED
from .live import LiveService, wait_until
from .test_faults import SLOW


def test_an_engine_that_cannot_be_opened_keeps_the_http_side_up(
    engine: Path, importable: None
) -> None:
    parts = {"opener": "tests.jetson.scripted:refuse"}
    with LiveService(engine, parts, wait=False) as live:
        wait_until(lambda: "built for another board" in live.service.state.reason, 30)
        refused = live.chat("say:yes")
        assert refused.status_code == 503
        assert "built for another board" in refused.json()["error"]["message"]
        assert not live.service.state.ready
        wait_until(lambda: live.service.supervisor.restarts >= 1, 10)  # and it is tried again


def test_a_worker_that_hangs_is_replaced(engine: Path, importable: None) -> None:
    with LiveService(engine, SCRIPTED, stall_timeout_s=1.0) as live:
        pid = live.service.supervisor.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        answer = live.chat(SLOW)
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "engine_lost"
        live.wait_ready()
        assert live.chat("say:yes").status_code == 200


def test_a_worker_ends_with_its_service(engine: Path, importable: None) -> None:
    with LiveService(engine, SCRIPTED) as live:
        pid = live.service.supervisor.pid
    assert not Path(f"/proc/{pid}").exists()


class Wire:
    """Both ends of an ASGI connection."""

    def __init__(self, *, leaves: bool = False, reads: bool = True) -> None:
        self._leaves = leaves
        self._reads = reads
        self.body = b""
        self.status = 0

    async def receive(self) -> dict[str, Any]:
        if not self._leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if not self._reads:
            await asyncio.Event().wait()
        self.body += message["body"]


async def _chunks(pause_s: float) -> Any:
    yield {"n": 1}
    await asyncio.sleep(pause_s)
    yield {"n": 2}


def send_over(wire: Wire, pause_s: float = 0.0, write_timeout_s: float = 5.0) -> None:
    stream = EventStream(_chunks(pause_s), {}, write_timeout_s)
    asyncio.run(stream({}, wire.receive, wire.send))  # type: ignore[arg-type]


def test_a_quiet_stream_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.05)
    wire = Wire()
    send_over(wire, pause_s=0.2)
    lines = wire.body.decode().split("\n\n")
    assert lines.count(": waiting") >= 2
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert [json.loads(d) for d in data[:-1]] == [{"n": 1}, {"n": 2}] and data[-1] == "[DONE]"


def test_a_stream_ends_when_nobody_is_there_or_nobody_reads() -> None:
    with pytest.raises(ClientGone):
        send_over(Wire(leaves=True), pause_s=10)
    with pytest.raises(ClientGone):
        send_over(Wire(reads=False), write_timeout_s=0.1)
