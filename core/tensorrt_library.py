"""TensorRT and TensorRT for RTX: imported when a target names them, never before."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .capabilities import TENSORRT, TENSORRT_RTX, TITLES, Version, parse_version, require_version
from .errors import UsageError

_MODULES = {TENSORRT: "tensorrt", TENSORRT_RTX: "tensorrt_rtx"}
_REMEDIES = {
    TENSORRT: (
        "on a Jetson use JetPack's own package (apt install python3-libnvinfer, in a venv made with"
        " --system-site-packages), elsewhere: pip install tensorrt"
    ),
    TENSORRT_RTX: "pip install 'edgevlm[tensorrt-rtx]'",
}


@dataclass(frozen=True)
class TensorRTLibrary:
    """One of the two libraries. ``trt`` is its module; both have nearly the same interface."""

    name: str
    trt: Any
    version: str

    @property
    def title(self) -> str:
        return f"{TITLES[self.name]} {self.version}"

    @property
    def numbers(self) -> Version:
        return parse_version(self.version)


def load_tensorrt(name: str) -> TensorRTLibrary:
    """Import ``"tensorrt"`` or ``"tensorrt-rtx"``.

    Raises:
        UsageError: it is not installed, cannot be loaded or is too old.
    """
    try:
        module = import_module(_MODULES[name])
        version = str(module.__version__)
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"{TITLES[name]} cannot be imported ({reason}); {_REMEDIES[name]}"
        ) from None
    except (OSError, AttributeError) as error:
        raise UsageError(f"{TITLES[name]} is damaged ({error}); {_REMEDIES[name]}") from None
    require_version(name, version)
    return TensorRTLibrary(name, module, version)
