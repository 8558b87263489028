"""TensorRT's names of element types."""

from __future__ import annotations

from typing import Any

_NAMES = {
    "float16": ("HALF", "FP16"),
    "bfloat16": ("BF16", "BF16"),
    "float32": ("FLOAT", "FP32"),
    "int32": ("INT32", "INT32"),
    "int64": ("INT64", "INT64"),
    "bool": ("BOOL", "BOOL"),
}
_TORCH_NAMES = {member: name for name, (member, _) in _NAMES.items()}


def data_type(trt: Any, name: str) -> Any:
    """The member of ``DataType`` for a torch dtype's name."""
    return getattr(trt.DataType, _NAMES[name][0])


def short_name(name: str) -> str:
    """What quick-deploy plugins call it in their type combinations."""
    return _NAMES[name][1]


def torch_name(member: Any) -> str:
    """The torch dtype's name for a member of ``DataType``; ``""`` if no operator here takes it."""
    return _TORCH_NAMES.get(member.name, "")
