"""The worker process: ``python -m edgevlm.jetson.worker FD``, where FD is the socket to serve."""

from __future__ import annotations

import contextlib
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ...core import EdgeVLMError
from .messages import Fatal
from .opening import open_by_name


def main() -> int:
    """Serve one connection; returns the exit status."""
    # Signals go to the HTTP side, which drains requests before it says Stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _volunteer_when_memory_is_short()
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    settings = connection.recv()
    try:
        opened = open_by_name(settings)
    except EdgeVLMError as error:
        connection.send(Fatal(str(error)))
        return error.exit_code
    from .loop import WorkerLoop

    try:
        WorkerLoop(connection, opened).run()
    except Exception as error:  # after which a GPU's context is of no use: a new process is
        connection.send(Fatal(f"the engine failed: {type(error).__name__}: {error}"[:300]))
        return 1
    return 0


def _volunteer_when_memory_is_short() -> None:
    """Let the kernel end this process, not the HTTP side or the desktop, if memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
