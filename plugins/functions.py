"""The ONNX functions of our own domain, each with a body of standard ONNX."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from ..core import Registry
from .experts import onnx_function as experts
from .macs import onnx_function as macs
from .sere import onnx_function as sere

DOMAIN = "edgevlm"
FUNCTIONS: Registry[Callable[[], onnx.FunctionProto]] = Registry("ONNX function")
FUNCTIONS.register("MoeExperts")(experts.function)
FUNCTIONS.register("MacsCapacity")(macs.function)
FUNCTIONS.register("SereRouting")(sere.function)


def called_functions(graph: onnx.GraphProto) -> list[onnx.FunctionProto]:
    """The functions that nodes of ``graph`` call, each once."""
    called = {node.op_type for node in graph.node if node.domain == DOMAIN}
    return [FUNCTIONS.get(name)() for name in FUNCTIONS.names() if name in called]
