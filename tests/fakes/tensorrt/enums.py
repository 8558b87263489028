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
    MOE = 55
    ELEMENTWISE = 9  # and everything else


class MoEActType(enum.Enum):
    NONE = 0
    SILU = 1


class CausalMaskKind(enum.Enum):
    NONE = 0
    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class NetworkDefinitionCreationFlag(enum.IntEnum):
    STRONGLY_TYPED = 1


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


class TensorFormat(enum.Enum):
    LINEAR = 0
    CHW32 = 5


class TensorRTPhase(enum.Enum):
    BUILD = 0
    RUNTIME = 1


class PluginFieldType(enum.Enum):
    FLOAT32 = 1
    INT32 = 5
    INT64 = 9


class DimensionOperation(enum.Enum):
    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    SUB = 4
    FLOOR_DIV = 7
    CEIL_DIV = 8
