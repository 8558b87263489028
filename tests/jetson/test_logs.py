"""The log: one JSON object a line, with request ids and without what users wrote."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import httpx
import pytest

from edgevlm.jetson.logs import LOGGER, JsonFormatter, log_failure

from .live import LiveService

SECRET = "swordfish"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the service logs meanwhile."""
    buffer = io.StringIO()
    handler = logging.StreamHandler(buffer)
    handler.setFormatter(JsonFormatter())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    yield buffer
    LOGGER.removeHandler(handler)


def test_requests_are_logged_without_their_content(
    scripted: LiveService, written: io.StringIO
) -> None:
    url = f"{scripted.url}/v1/chat/completions"
    right = {"messages": [{"role": "user", "content": f"say:{SECRET}"}]}
    wrong = {"messages": [{"role": SECRET, "content": SECRET}], SECRET: SECRET}
    for body in (right, wrong):
        answer = httpx.post(f"{url}?{SECRET}", json=body, headers={"X-Request-Id": "visit-1"})
        assert answer.headers["x-request-id"] == "visit-1"
    httpx.get(f"{scripted.url}/{SECRET}")
    assert httpx.get(url, headers={"X-Request-Id": "a b"}).headers["x-request-id"] != "a b"
    text = written.getvalue()
    assert SECRET not in text
    visits = [entry for entry in map(json.loads, text.splitlines()) if entry["event"] == "request"]
    first, second = (visit for visit in visits if visit["request_id"] == "visit-1")
    assert first["status"] == 200 and first["completion_tokens"] > 1 and first["ms"] > 0
    assert second["status"] == 400 and second["param"] == "messages[0].role"


def test_an_exception_is_logged_as_its_places(written: io.StringIO) -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        log_failure("request_failed", error, request_id="r")
    entry = json.loads(written.getvalue())
    assert entry["error"] == "KeyError" and entry["request_id"] == "r"
    assert "test_logs.py" in entry["places"][-1] and SECRET not in written.getvalue()


def test_records_of_other_libraries_are_one_line_each() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        raised = sys.exc_info()
    record = logging.LogRecord("uvicorn.error", 40, "", 1, "It broke\n%s", (SECRET,), raised)
    line = JsonFormatter().format(record)
    assert SECRET not in line
    assert json.loads(line)["message"] == "It broke"
    assert json.loads(line)["error"] == "ValueError"
