"""An execution context fixed to one profile, with its tensors bound by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...core import EngineError
from .tensorrt_device import Device

_DTYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT64": torch.int64,
    "BOOL": torch.bool,
}


class ProfileContext:
    """Binds torch tensors and enqueues runs. A profile of its own means it never has to switch:
    graphs captured from it stay valid while another context runs."""

    def __init__(
        self,
        engine: Any,
        context: Any,
        profile: int,
        device: Device,
        reason: Callable[[], str],
    ) -> None:
        self._engine, self._context, self._profile = engine, context, profile
        self._device, self._reason = device, reason
        self._addresses: dict[str, int] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        names = map(engine.get_tensor_name, range(engine.num_io_tensors))
        self._dtypes = {name: _DTYPES[engine.get_tensor_dtype(name).name] for name in names}
        if not context.set_optimization_profile_async(profile, device.stream):
            raise EngineError(f"TensorRT cannot select profile {profile}: {reason()}")

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where everything is bound: graphs hold for these addresses only."""
        return tuple(self._addresses.values())

    def bind(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Use these tensors from now on; what is bound already is left alone.

        A tensor that appears in both, as a KV cache does, is updated where it is.

        Raises:
            EngineError: the engine has no such tensor, or not of this dtype or shape.
        """
        for name, tensor in inputs.items():
            self._bind_address(name, tensor)
            shape = tuple(tensor.shape)
            if self._shapes.get(name) != shape:
                if not self._context.set_input_shape(name, shape):
                    raise EngineError(
                        f"the engine does not take {name} of shape {list(shape)}:"
                        f" {self._limits(name)}"
                    )
                self._shapes[name] = shape
        for name, tensor in outputs.items():
            self._bind_address(name, tensor)

    def enqueue(self) -> None:
        """Put one run on the device's stream.

        Raises:
            EngineError: the library refuses.
        """
        if not self._context.execute_async_v3(self._device.stream):
            raise EngineError(f"TensorRT cannot run the engine: {self._reason()}")

    def _bind_address(self, name: str, tensor: Tensor) -> None:
        assert tensor.is_contiguous() and tensor.device == self._device.torch_device, name
        if self._dtypes.get(name) is not tensor.dtype:
            raise EngineError(
                f"the engine was given {name} as {tensor.dtype}; its own: {self._dtypes.get(name)}"
            )
        address = tensor.data_ptr()
        if self._addresses.get(name) != address:
            if not self._context.set_tensor_address(name, address):
                raise EngineError(f"TensorRT refuses the address of {name}: {self._reason()}")
            self._addresses[name] = address

    def _limits(self, name: str) -> str:
        low, _, high = (
            tuple(s) for s in self._engine.get_tensor_profile_shape(name, self._profile)
        )
        return f"profile {self._profile} was built for {list(low)} to {list(high)}"
