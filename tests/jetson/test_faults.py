"""What goes wrong in the field: dead engines, vanished clients, slow ones, full disks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from .conftest import SCRIPTED
from .live import LiveService, wait_until

LONG = "say:" + "word " * 200
SLOW = f"slow: {LONG}"  # four seconds


def running(live: LiveService) -> int:
    return live.service.dispatcher.running


def lines_of(response: httpx.Response) -> Iterator[str]:
    return (line for line in response.iter_lines() if line.startswith("data: "))


def open_stream(live: LiveService, text: str) -> socket.socket:
    """A streaming request over a plain socket, its head and first bytes read."""
    body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": True})
    connection = socket.create_connection(("127.0.0.1", live.port), timeout=30)
    connection.sendall(
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/json\r\n\r\n{body}".encode()
    )
    return connection


def test_kill_9_of_the_worker_mid_stream(scripted: LiveService) -> None:
    old = scripted.service.supervisor.pid
    assert old is not None
    stream = scripted.client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": SLOW}], stream=True
    )
    with pytest.raises(openai.APIError, match=r"the engine was lost.*killed by signal 9"):
        for place, _ in enumerate(stream):
            if place == 3:
                os.kill(old, signal.SIGKILL)
    assert httpx.get(f"{scripted.url}/health").status_code == 200
    ready = httpx.get(f"{scripted.url}/health/ready")
    assert ready.status_code == 503 and "killed by signal 9" in ready.json()["reason"]
    refused = scripted.chat("say:yes")
    assert refused.status_code == 503 and "retry-after" in refused.headers
    scripted.wait_ready()
    assert scripted.chat("say:yes").json()["choices"][0]["message"]["content"] == "yes"
    assert scripted.service.supervisor.pid != old
    assert scripted.metric("requests_total", finish_reason="engine_lost") >= 1


def test_an_engine_that_fails_takes_only_its_process_down(scripted: LiveService) -> None:
    failed = scripted.chat("raise: say:x")
    assert failed.status_code == 503
    assert "the device fell off the bus" in failed.json()["error"]["message"]
    scripted.wait_ready()
    assert scripted.chat("say:yes").status_code == 200


def test_a_client_that_leaves_a_stream_frees_the_slot(scripted: LiveService) -> None:
    before = scripted.metric("requests_total", finish_reason="cancelled")
    with (
        httpx.stream(
            "POST",
            f"{scripted.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": SLOW}], "stream": True},
        ) as response,
    ):
        next(lines_of(response))
        assert running(scripted) == 1
    assert wait_until(lambda: running(scripted) == 0, 5) < 1.0
    assert scripted.metric("requests_total", finish_reason="cancelled") == before + 1


def test_a_client_that_leaves_before_its_answer_frees_the_slot(scripted: LiveService) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{scripted.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": SLOW}]},
            timeout=0.3,
        )
    assert wait_until(lambda: running(scripted) == 0, 5) < 1.0


def test_a_full_queue_answers_at_once_and_waiting_clients_may_leave(
    scripted: LiveService,
) -> None:
    streams = [open_stream(scripted, SLOW) for _ in range(6)]  # 3 in the engine, 3 waiting
    wait_until(lambda: scripted.service.dispatcher.waiting == 3)
    begin = time.monotonic()
    refused = scripted.chat("say:x")
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["code"] == "client_queue_full"
    assert time.monotonic() - begin < 1
    for stream in streams:
        stream.close()
    wait_until(lambda: scripted.service.dispatcher.waiting == 0 and running(scripted) == 0)
    assert scripted.chat("say:x").status_code == 200


def test_waiting_and_total_time_have_an_end(engine: Path, importable: None) -> None:
    timeouts = {"queue_timeout_s": 0.3, "total_timeout_s": 1.0}
    with LiveService(engine, SCRIPTED, slots=1, **timeouts) as live:
        first = [open_stream(live, SLOW) for _ in range(2)]
        wait_until(lambda: running(live) == 2)
        waited = live.chat("say:x")
        assert waited.status_code == 503
        assert waited.json()["error"]["code"] == "queue_timeout"
        for stream in first:
            stream.close()
        wait_until(lambda: running(live) == 0)
        slow = live.chat(SLOW)
        assert slow.status_code == 504 and slow.json()["error"]["code"] == "timeout"
        assert wait_until(lambda: running(live) == 0) < 1.0


def test_a_client_that_reads_one_byte_at_a_time_holds_no_slot(scripted: LiveService) -> None:
    connection = open_stream(scripted, LONG)
    begin = time.monotonic()
    assert connection.recv(1) == b"H"
    wait_until(lambda: running(scripted) == 0, 10)
    assert time.monotonic() - begin < 5
    assert scripted.chat("say:x").status_code == 200
    connection.close()


@pytest.mark.parametrize("start", ["", "POST /v1/chat/comp", None])
def test_a_client_that_sends_one_byte_a_second_is_cut_off(
    scripted: LiveService, start: str | None
) -> None:
    """In its head, and (``None``) in its body: a second for either, as this service is set."""
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", scripted.port), timeout=10)
    connection.sendall((head if start is None else start).encode())
    received = b""
    begin = time.monotonic()
    try:
        while time.monotonic() - begin < 8:
            connection.sendall(b" ")
            connection.settimeout(0.4)
            try:
                part = connection.recv(4096)
                received += part
                if not part:
                    break
            except TimeoutError:
                continue
    except OSError:
        pass  # closed
    assert time.monotonic() - begin < 6
    assert (b" 408 " in received) == (start is None)


def test_a_thousand_idle_connections_keep_nobody_out(scripted: LiveService) -> None:
    idle = []
    for _ in range(1000):
        idle.append(socket.create_connection(("127.0.0.1", scripted.port), timeout=10))
        if len(idle) % 100 == 0:
            assert scripted.chat("say:yes").status_code == 200
    assert len(scripted._server.server_state.connections) <= 33
    for connection in idle:
        connection.close()


def test_a_running_answer_survives_a_flood_of_connections(scripted: LiveService) -> None:
    streams = [open_stream(scripted, SLOW)]
    wait_until(lambda: running(scripted) == 1)
    flood = [socket.create_connection(("127.0.0.1", scripted.port)) for _ in range(80)]
    text = b""
    while b"[DONE]" not in text:
        part = streams[0].recv(65536)
        assert part
        text += part
    for connection in (*flood, *streams):
        connection.close()


def test_a_jump_of_the_clock_changes_nothing(
    scripted: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    jump = threading.Event()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - (10**9 if jump.is_set() else 0))
    with httpx.stream(
        "POST",
        f"{scripted.url}/v1/chat/completions",
        json={"messages": [{"role": "user", "content": f"slow: {LONG[:120]}"}], "stream": True},
    ) as response:
        lines = lines_of(response)
        next(lines)
        jump.set()
        assert list(lines)[-1] == "data: [DONE]"
    assert scripted.chat("say:yes").status_code == 200


COMMAND = [sys.executable, "-m", "edgevlm.cli.main", "serve", "--min-free-memory-mb", "16"]


def start_process(engine: Path, port: int, stderr: object) -> subprocess.Popen[str]:
    command = [*COMMAND, "--engine", str(engine), "--port", str(port)]
    process = subprocess.Popen(command, stderr=stderr, text=True)  # type: ignore[call-overload]

    def ready() -> bool:
        assert process.poll() is None
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    wait_until(ready, 60)
    return process  # type: ignore[no-any-return]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_sigterm_drains_with_logs_on_a_full_disk(engine: Path) -> None:
    port = free_port()
    with open("/dev/full", "w") as full:
        process = start_process(engine, port, full)
    url = f"http://127.0.0.1:{port}"
    schema = {"type": "object", "properties": {"t": {"type": "string", "minLength": 150}},
              "required": ["t"]}  # fmt: skip
    body = {
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "max_completion_tokens": 100,
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
    }
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=30) as response:
        lines = lines_of(response)
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert list(lines)[-1] == "data: [DONE]"  # it was allowed to finish
    assert process.wait(30) == 0
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{url}/health")
