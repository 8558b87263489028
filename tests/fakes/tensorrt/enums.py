"""The enumerations, with the names TensorRT gives them."""

from __future__ import annotations

import enum


class Severity(enum.IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class DataType(enum.Enum):
    FLOAT = 1
    HALF = 10
    BF16 = 16
    INT32 = 6
    INT64 = 7
    BOOL = 9


class LayerType(enum.Enum):
    ATTENTION_INPUT = 1
    ATTENTION_OUTPUT = 2
    KV_CACHE_UPDATE = 3
    ROTARY_EMBEDDING = 4
    CAST = 5
    CONSTANT = 6
    MATRIX_MULTIPLY = 7
    PLUGIN_V3 = 8
    ELEMENTWISE = 9  # and everything else


class CausalMaskKind(enum.Enum):
    NONE = 0
    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class NetworkDefinitionCreationFlag(enum.IntEnum):
    STRONGLY_TYPED = 1


class OnnxParserFlag(enum.IntEnum):
    ENABLE_PLUGIN_OVERRIDE = 4


class ExecutionContextAllocationStrategy(enum.Enum):
    STATIC = 0
    USER_MANAGED = 2


class DynamicShapesKernelSpecializationStrategy(enum.Enum):
    LAZY = 0
    EAGER = 1
    NONE = 2


class TensorIOMode(enum.Enum):
    INPUT = 1
    OUTPUT = 2


class ComputeCapability(enum.Enum):
    SM80 = 80
    SM86 = 86
    SM89 = 89
    SM120 = 120
    SM121 = 121
