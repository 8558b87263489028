"""TensorRT's log: what a user should see of it, and the reason when something failed."""

from __future__ import annotations

import logging
from typing import Any

_logger = logging.getLogger("edgevlm.tensorrt")

# Said of every network of ours, and nothing to act upon: inputs are int64 on purpose, and nodes of
# a function have the same names wherever it is called.
_HARMLESS = ("Int64 binding", "already exists, the output tensors of this new instance")
# A library without a driver says so whenever it frees what a failed build left.
_AFTERMATH = ("cudaError 35", "CUDA driver version is insufficient")
# What TensorRT says, and what to do about it. The first match counts.
_REMEDIES = (
    ("dedicated kernel", "its attention has no fused kernel; use --dtype float16 or bfloat16"),
    ("out of memory", "out of device memory; free some or lower --max-kv-len and --max-batch"),
    ("OutOfMemory", "out of device memory; free some or lower --max-kv-len and --max-batch"),
)


class BuildLog:
    """Collects one build's errors and passes on its warnings."""

    def __init__(self, trt: Any) -> None:
        self.errors: list[str] = []
        errors = self.errors

        class Logger(trt.ILogger):  # type: ignore[misc]  # a class known only at run time
            def log(self, severity: Any, message: str) -> None:
                record(severity, message)

        def record(severity: Any, message: str) -> None:
            if severity <= trt.ILogger.ERROR:
                errors.append(message)
            elif severity == trt.ILogger.WARNING and not _matches(message, _HARMLESS):
                _logger.warning("TensorRT: %s", " ".join(message.split()))

        self.sink = Logger()

    def reason(self) -> str:
        """Why the build failed, in one line."""
        for text, remedy in _REMEDIES:
            if any(text in error for error in self.errors):
                return remedy
        causes = [error for error in self.errors if not _matches(error, _AFTERMATH)]
        return " ".join((causes or self.errors or ["no reason given"])[0].split())


def _matches(message: str, fragments: tuple[str, ...]) -> bool:
    return any(fragment in message for fragment in fragments)
