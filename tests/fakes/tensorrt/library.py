"""The module itself, at a chosen version and on a chosen GPU."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import enums, plugins
from .builder import Builder, StreamingBuilder
from .device import FakeDevice
from .network import AttentionInputLayer
from .parser import OnnxParser
from .quick import PluginModule
from .runtime import Runtime


class _Logger:
    """``ILogger``: severities are attributes of the class, as in the real bindings."""

    INTERNAL_ERROR = enums.Severity.INTERNAL_ERROR
    ERROR = enums.Severity.ERROR
    WARNING = enums.Severity.WARNING
    INFO = enums.Severity.INFO
    VERBOSE = enums.Severity.VERBOSE


class _Interface:
    """A class for users to derive from."""


_PLUGIN_INTERFACE = (
    plugins.IPluginV3,
    plugins.IPluginV3OneCore,
    plugins.IPluginV3OneBuild,
    plugins.IPluginV3OneRuntime,
    plugins.IPluginCreatorV3One,
    plugins.PluginField,
    plugins.PluginFieldCollection,
    plugins.DimsExprs,
)


class FakeTensorRT(ModuleType):
    """``import tensorrt`` (or ``tensorrt_rtx``). ``device`` is ``None`` where there is no GPU."""

    def __init__(self, library: str, version: str, device: FakeDevice | None) -> None:
        super().__init__(library.replace("-", "_"))
        self.__spec__ = ModuleSpec(self.__name__, loader=None)  # torch looks for it
        self.__version__ = version
        for name, value in vars(enums).items():
            if isinstance(value, type) and value.__module__ == enums.__name__:
                setattr(self, name, value)
        self.ILogger, self.IProgressMonitor, self.IStreamWriter = _Logger, _Interface, _Interface
        self.IAttentionInputLayer = AttentionInputLayer
        self.int32 = enums.DataType.INT32
        streaming = library == "tensorrt-rtx"
        common: dict[str, Any] = {"library": library, "version": version}
        gpu = device.compute_capability if device else None
        base = StreamingBuilder if streaming else Builder
        self.Builder = type("Builder", (base,), {**common, "gpu": gpu})
        self.Runtime = type("Runtime", (Runtime,), {**common, "device": device})
        registry = plugins.Registry()
        self.OnnxParser = type("OnnxParser", (OnnxParser,), {"registry": registry})
        if library == "tensorrt":  # the other has no plugins
            self.get_plugin_registry = lambda: registry
            self.plugin = PluginModule(f"{self.__name__}.plugin", registry)
            for interface in _PLUGIN_INTERFACE:
                setattr(self, interface.__name__, interface)
