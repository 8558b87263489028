"""TensorRT's timing cache: measurements of kernels, kept from one build to the next."""

from __future__ import annotations

import os
from typing import Any

from ..core.gpu import present_gpu
from ..core.tensorrt_library import TensorRTLibrary
from .targets import WriteOptions


class TimingCache:
    """Attached to one builder configuration; :meth:`save` keeps what the build learned.

    The file is named after what its content depends on, so another GPU or version starts anew.
    """

    def __init__(self, config: Any, library: TensorRTLibrary, options: WriteOptions) -> None:
        gpu = present_gpu()
        name = (gpu.name if gpu else "gpu").lower().replace(" ", "-").replace("/", "-")
        capability = "-".join(options.compute_capabilities)
        self._path = options.cache_dir / f"timing-{library.version}-sm{capability}-{name}.bin"
        self._config = config
        known = self._path.read_bytes() if self._path.exists() else b""
        if not config.set_timing_cache(config.create_timing_cache(known), False):
            config.set_timing_cache(config.create_timing_cache(b""), False)

    def save(self) -> None:
        """Replace the file in one step: other builds may be reading it.

        Raises:
            OSError: it cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        temporary.write_bytes(memoryview(self._config.get_timing_cache().serialize()))
        temporary.replace(self._path)
