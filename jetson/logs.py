"""Structured logs: one JSON object a line on stderr, without what users wrote.

An exception is logged as its type and the places it passed through; its message may quote a
request and stays out.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("edgevlm.service")


def configure_logs() -> None:
    """Send the service's and the HTTP server's records to stderr as JSON lines."""
    logging.raiseExceptions = False  # a full disk behind stderr must not end the service
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("edgevlm.service", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
    # Access lines are ours (`gate`); what uvicorn says of single bad requests is only noise.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.access").disabled = True


def log(event: str, level: int = logging.INFO, **values: Any) -> None:
    """Write one line."""
    LOGGER.log(level, event, extra={"values": values})


def log_failure(event: str, error: BaseException, **values: Any) -> None:
    """Write one line about an exception nobody expected."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
    log(event, logging.ERROR, error=type(error).__name__, places=places, **values)


class JsonFormatter(logging.Formatter):
    """Records of :func:`log`, and those of other libraries without their arguments' secrets."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name == LOGGER.name else record.name,
        }
        if record.name != LOGGER.name:
            entry["message"] = (
                str(record.msg).splitlines()[0] if record.exc_info else record.getMessage()
            )
        if record.exc_info and record.exc_info[0] is not None:
            entry["error"] = record.exc_info[0].__name__
        entry.update(getattr(record, "values", {}))
        return json.dumps(entry, ensure_ascii=False, default=str)
