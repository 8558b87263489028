"""The on-device service: an OpenAI-compatible HTTP server around one engine.

``serve`` puts the parts together. A request passes ``gate`` (keys, hosts, limits), ``api`` (JSON to
a request and back), ``media`` (pictures, without trust), ``admission`` (fair queue, memory, heat),
and ``worker`` (the engine, in a process of its own). ``telemetry`` watches the board.
"""

from .config import ServiceConfig
from .config_layers import resolve_config

__all__ = ["ServiceConfig", "resolve_config"]
