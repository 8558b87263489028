"""Launching a Triton kernel at little cost to the host."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

Constant = int | bool


class Kernel:
    """A Triton kernel and the variants of it that are compiled already.

    At each launch Triton works out anew which variant the arguments need, and that takes the host
    longer than most kernels here take the GPU. What decides is known beforehand: dtypes and
    alignment of the tensors, and the constants. So the compiled variant is looked up by those.

    Args:
        function: a ``triton.jit`` function whose parameters are, in this order, tensors, integers
            (all of them listed in ``do_not_specialize``) and ``constexpr`` constants.
        overlaps: where the GPU can, a launch begins while the kernel before it on the stream ends.
            The function's last constant, which it gets in addition, says so; it then calls
            ``gdc_wait`` before it reads or writes anything but weights.
        options: ``num_warps`` and the like.
    """

    def __init__(self, function: Any, *, overlaps: bool = False, **options: int) -> None:
        self._function = function
        self._overlaps = overlaps
        self._options = options
        self._compiled: dict[tuple[object, ...], Any] = {}

    def __call__(
        self,
        grid: tuple[int, int, int],
        tensors: tuple[Tensor, ...],
        numbers: tuple[float, ...],
        constants: tuple[Constant, ...],
        *,
        overlap: bool = True,
    ) -> None:
        """Launch on the current stream of the tensors' device.

        Args:
            tensors: contiguous, all on one device.
            numbers: below ``2**31``.
            overlap: whether this launch may begin early, if the kernel ``overlaps`` at all. One
                whose few long programs should spread over an idle GPU had better not: they would
                gather where others have already ended.
        """
        device = tensors[0].device
        if device.index is not None and device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self(grid, tensors, numbers, constants, overlap=overlap)
        # Plain addresses spare the launcher its question to the driver about each tensor.
        addresses = [tensor.data_ptr() for tensor in tensors]
        options = self._options
        if self._overlaps and overlap and launches_overlap(device):
            constants, options = (*constants, True), options | {"launch_pdl": True}
        elif self._overlaps:
            constants = (*constants, False)
        dtypes = [tensor.dtype for tensor in tensors]
        aligned = [address % 16 == 0 for address in addresses]
        key = (device.index, *constants, *dtypes, *aligned)
        compiled = self._compiled.get(key)
        if compiled is not None:
            compiled[grid](*addresses, *numbers, *constants)
            return None
        compiled = self._function[grid](*tensors, *numbers, *constants, **options)
        if compiled is not None:  # it is under Triton's interpreter
            self._compiled[key] = compiled
        return None


@cache
def launches_overlap(device: torch.device) -> bool:
    """Whether a kernel on ``device`` can be launched before the one it depends on has ended."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def blocks(items: int, size: int) -> int:
    """How many blocks of ``size`` cover ``items``."""
    return -(-items // size)


def power_of_two(least: int) -> int:
    """The smallest power of two that is no smaller than ``least >= 1``."""
    return 1 << (least - 1).bit_length()
