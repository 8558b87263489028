"""One safetensors file: its header, checked against its size, and its tensors without a copy.

Format: https://huggingface.co/docs/safetensors (8 bytes little-endian header length, a JSON
header, then the data; offsets count from the first data byte).
"""

from __future__ import annotations

import json
import math
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core import CheckpointError

_MAX_HEADER = 100_000_000  # the limit of the reference implementation
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies. ``offset`` counts bytes from the start of ``file``."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    file: str
    offset: int
    nbytes: int


class SafetensorsFile:
    """The header of one file; the data is mapped on first use and never read ahead.

    Raises:
        CheckpointError: the file is missing, truncated or not in the safetensors format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.size = path.stat().st_size
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if not 2 <= length <= min(_MAX_HEADER, self.size - 8):
                    raise _damaged(path, f"it is {self.size} bytes with a header of {length}")
                self.header = file.read(length)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file; download the checkpoint again") from None
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
        self._data_start = 8 + length
        self.tensors = self._parse()
        self._map: mmap.mmap | None = None

    def tensor(self, info: TensorInfo) -> Tensor:
        """The tensor as a view of the mapped file. Writing to it never reaches the file."""
        count = math.prod(info.shape)
        if count == 0:
            return torch.empty(info.shape, dtype=info.dtype)
        if self._map is None:
            with self.path.open("rb") as file:
                # Copy on write: torch wants a writable buffer, and nobody writes.
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        flat = torch.frombuffer(self._map, dtype=info.dtype, count=count, offset=info.offset)
        # A legal header may place a tensor at an odd byte; kernels want aligned elements.
        aligned = flat if info.offset % info.dtype.itemsize == 0 else flat.clone()
        return aligned.view(info.shape)

    def _parse(self) -> dict[str, TensorInfo]:
        try:
            raw = json.loads(self.header)
            tensors = {
                name: self._info(name, entry)
                for name, entry in raw.items()
                if name != "__metadata__"
            }
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise _damaged(self.path, f"its header is not JSON: {error}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(self.path, f"its header is not safetensors': {error!r}") from None
        end = max((t.offset + t.nbytes for t in tensors.values()), default=self._data_start)
        if end != self.size:
            raise _damaged(self.path, f"it is {self.size} bytes but its header describes {end}")
        return tensors

    def _info(self, name: str, entry: dict[str, Any]) -> TensorInfo:
        if entry["dtype"] not in _DTYPES:
            known = ", ".join(_DTYPES)
            raise CheckpointError(
                f"{self.path}: tensor {name!r} is {entry['dtype']}; supported: {known}"
            )
        dtype, shape = _DTYPES[entry["dtype"]], tuple(int(n) for n in entry["shape"])
        begin, end = (int(n) for n in entry["data_offsets"])
        nbytes = math.prod(shape) * dtype.itemsize
        if begin < 0 or end - begin != nbytes or min(shape, default=0) < 0:
            raise ValueError(f"tensor {name!r} of {nbytes} bytes lies in [{begin}, {end})")
        return TensorInfo(name, dtype, shape, self.path.name, self._data_start + begin, nbytes)


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path}: truncated or damaged ({why}); download the file again")
