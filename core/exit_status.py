"""What becomes of a command: a status, and one line on stderr where something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .errors import EdgeVLMError


def exit_status(command: Callable[[], int | None]) -> int:
    """Run ``command`` and return its status, 0 if it names none; bugs keep their traceback."""
    try:
        return command() or 0
    except EdgeVLMError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
