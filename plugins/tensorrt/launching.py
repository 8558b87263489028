"""Carrying out an operator's launches on tensors, as a plugin does on memory of TensorRT's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .description import Operator, Port, Statics
from .sizes import Size

_ALIGNMENT = 256  # bytes, of each tensor in a workspace


def launch_all(
    operator: Operator, sizes: Statics, floating: str, tensors: Mapping[str, Tensor]
) -> None:
    """Enqueue every launch on the current stream.

    Args:
        sizes: of every symbol.
        tensors: one for each port, contiguous and on one device; bool ones as uint8.
    """
    for launch in operator.launches:
        variant = launch.variant(sizes, floating)
        grid = tuple(extent.number(sizes) for extent in variant.grid)
        arguments = [
            item.number(sizes) if isinstance(item, Size) else tensors[item]
            for item in launch.arguments
        ]
        launch.function()[grid](*arguments, **variant.constants, **variant.options)


def call(operator: Operator, inputs: Sequence[Tensor], statics: Statics = {}) -> list[Tensor]:  # noqa: B006
    """The outputs of one call, in memory of torch's.

    Args:
        inputs: contiguous, of the dtypes that the operator says.
        statics: its attributes.
    """
    sizes = {**operator.solve([tensor.shape for tensor in inputs]), **statics}
    floating = floating_type(operator, [str(t.dtype).removeprefix("torch.") for t in inputs])
    device = inputs[0].device
    tensors = {
        port.name: bytes_of_flags(tensor)
        for port, tensor in zip(operator.inputs, inputs, strict=True)
    }
    for port in (*operator.scratch, *operator.outputs):
        dtype = getattr(torch, port.element(floating))
        tensors[port.name] = torch.empty(shape_of(port, sizes), dtype=dtype, device=device)
    launch_all(operator, sizes, floating, tensors)
    return [tensors[port.name] for port in operator.outputs]


def floating_type(operator: Operator, dtypes: Sequence[str]) -> str:
    """What ``"T"`` stands for, given the inputs' dtypes; ``""`` where there is none."""
    ports = zip(operator.inputs, dtypes, strict=True)
    return next((dtype for port, dtype in ports if port.dtype == "T"), "")


def shape_of(port: Port, sizes: Statics) -> tuple[int, ...]:
    """The shape in numbers."""
    return tuple(extent.number(sizes) for extent in port.shape)


def bytes_of_flags(tensor: Tensor) -> Tensor:
    """Kernels read flags as bytes."""
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def workspace_places(
    operator: Operator, sizes: Statics, floating: str
) -> tuple[dict[str, int], int]:
    """Where each scratch tensor lies in one workspace, in bytes, and how large that is."""
    places: dict[str, int] = {}
    end = 0
    for port in operator.scratch:
        places[port.name] = end
        count = torch.Size(shape_of(port, sizes)).numel()
        length = count * getattr(torch, port.element(floating)).itemsize
        end += -(-length // _ALIGNMENT) * _ALIGNMENT
    return places, end
