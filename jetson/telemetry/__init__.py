"""What the board says about itself: power, heat, clocks, memory. Read, never set.

Files are the authority; NVML and jetson-stats fill in what they do not say. Everything takes the
root of the file tree, so that tests need no board.
"""

from .monitor import Monitor
from .snapshot import Snapshot, Telemetry

__all__ = ["Monitor", "Snapshot", "Telemetry"]
