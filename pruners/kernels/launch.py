"""Launching a Triton kernel at little cost to the host."""

from __future__ import annotations

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
        options: ``num_warps`` and the like.
    """

    def __init__(self, function: Any, **options: int) -> None:
        self._function = function
        self._options = options
        self._compiled: dict[tuple[object, ...], Any] = {}

    def __call__(
        self,
        grid: tuple[int, int, int],
        tensors: tuple[Tensor, ...],
        numbers: tuple[float, ...],
        constants: tuple[Constant, ...],
    ) -> None:
        """Launch on the current stream of the tensors' device.

        Args:
            tensors: contiguous, all on one device.
            numbers: below ``2**31``.
        """
        device = tensors[0].device
        if device.index is not None and device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self(grid, tensors, numbers, constants)
        traits = [(tensor.dtype, tensor.data_ptr() % 16 == 0) for tensor in tensors]
        key = (device.index, *constants, *traits)
        arguments = (*tensors, *numbers, *constants)
        compiled = self._compiled.get(key)
        if compiled is not None:
            compiled[grid](*arguments)
            return None
        compiled = self._function[grid](*arguments, **self._options)
        if compiled is not None:  # it is under Triton's interpreter
            self._compiled[key] = compiled
        return None


def blocks(items: int, size: int) -> int:
    """How many blocks of ``size`` cover ``items``."""
    return -(-items // size)


def power_of_two(least: int) -> int:
    """The smallest power of two that is no smaller than ``least >= 1``."""
    return 1 << (least - 1).bit_length()
