"""Tensors over memory that is not torch's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Kinds that the array interface has; elements of other types are viewed as integers of their size.
_KINDS = {torch.float16: "<f2", torch.float32: "<f4", torch.int32: "<i4", torch.int64: "<i8"}


@dataclass(frozen=True)
class _DeviceArray:
    __cuda_array_interface__: dict[str, Any]


def tensor_at(
    address: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A contiguous tensor at ``address``; whoever owns the memory must outlive it."""
    count = torch.Size(shape).numel()
    if device.type == "cpu":
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=dtype, count=count).view(shape)
    integer = {1: "|u1", 2: "<i2"}
    kind = _KINDS.get(dtype) or integer[dtype.itemsize]
    array = _DeviceArray({"shape": shape, "typestr": kind, "data": (address, False), "version": 3})
    tensor = torch.as_tensor(array, device=device)
    return tensor if tensor.dtype is dtype else tensor.view(dtype)
