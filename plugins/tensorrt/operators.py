"""The operators that can be TensorRT plugins, by the name of the ONNX function they replace."""

from __future__ import annotations

from ...core import Registry
from .description import Operator
from .experts import MOE_EXPERTS
from .macs import MACS_CAPACITY
from .sere import SERE_ROUTING

OPERATORS: Registry[Operator] = Registry("TensorRT plugin")
for _operator in (MOE_EXPERTS, SERE_ROUTING, MACS_CAPACITY):
    OPERATORS.register(_operator.name)(_operator)
