"""jetson-stats, where it is installed and its root service runs. Never required."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .sysroot import Sysroot

SOCKET = "run/jtop.sock"


class JetsonStats:
    """A client of the ``jtop`` service.

    Args:
        module: the module ``jtop``, or ``None`` to import it if there is one.
    """

    def __init__(self, sysroot: Sysroot, module: Any = None) -> None:
        self._client: Any = None
        if not (sysroot.root / SOCKET).exists():
            return
        try:
            self._client = (module or import_module("jtop")).jtop()
            self._client.start()
        except Exception:  # a foreign library and a foreign service: nothing of theirs matters here
            self._client = None

    def total_power(self) -> float | None:
        """Watts of the whole board."""
        milliwatts = self._stats().get("Power TOT")
        return milliwatts / 1e3 if isinstance(milliwatts, int | float) else None

    def power_mode(self) -> str | None:
        """The name of the power mode."""
        mode = self._stats().get("nvp model")
        return str(mode) if mode else None

    def _stats(self) -> Mapping[str, Any]:
        if self._client is None:
            return {}
        try:
            stats: Mapping[str, Any] = self._client.stats
        except Exception:  # as above
            return {}
        return stats
