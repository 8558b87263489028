"""Turning errors into one line on stderr and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..core import exit_status

INTERRUPTED = 130


def run_reporting_errors(command: Callable[[], int]) -> int:
    """Run ``command``; known errors and Ctrl-C become one line and a status, bugs a traceback."""
    try:
        return exit_status(command)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (as `| head` does): not an error of ours.
        sys.stderr.close()
        return 0
