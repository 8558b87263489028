"""Class-style plugins (``IPluginV3``): one for an operator, whatever its launches.

They launch kernels from Python, when an engine is built and when it runs, so a process that opens
such an engine registers them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from .datatypes import data_type, torch_name
from .description import NAMESPACE, ROWS, VERSION, Operator
from .launching import floating_type, launch_all, shape_of, workspace_places
from .memory import tensor_at
from .sources import source_digest


def register_class(trt: Any, operator: Operator, device: torch.device) -> None:
    """Make the operator known to the library; again is no error.

    Args:
        device: whose memory TensorRT will pass.
    """
    registry = trt.get_plugin_registry()
    if registry.get_creator(operator.name, VERSION, NAMESPACE) is None:
        registry.register_creator(creator(trt, operator, device), NAMESPACE)


def creator(trt: Any, operator: Operator, device: torch.device) -> Any:
    """What makes plugins of the operator: at build without fields, later from those of the plan."""
    plugin_class = _plugin_class(trt, operator, device)

    class Creator(trt.IPluginCreatorV3One):  # type: ignore[misc]  # known only at run time
        def __init__(self) -> None:
            trt.IPluginCreatorV3One.__init__(self)
            self.name = operator.name
            self.plugin_namespace = NAMESPACE
            self.plugin_version = VERSION
            # Sizes are serialised, but no node has them as attributes.
            self.field_names = trt.PluginFieldCollection([])

        def create_plugin(self, name: str, fields: Any, phase: Any) -> Any:
            return plugin_class({field.name: int(field.data[0]) for field in fields})

    return Creator()


def _plugin_class(trt: Any, operator: Operator, device: torch.device) -> Any:
    inputs, outputs = operator.inputs, operator.outputs

    bases: Any = (
        trt.IPluginV3,
        trt.IPluginV3OneCore,
        trt.IPluginV3OneBuild,
        trt.IPluginV3OneRuntime,
    )

    class Plugin(*bases):  # type: ignore[misc]  # classes known only at run time
        """``statics`` are known once it is configured, or from the start if it is from a plan."""

        def __init__(self, statics: dict[str, int]) -> None:
            for base in bases:
                base.__init__(self)
            self.statics = dict(statics)
            self.plugin_name = operator.name
            self.plugin_version = VERSION
            self.plugin_namespace = NAMESPACE
            self.num_outputs = len(outputs)
            self.format_combination_limit = max(1, len(operator.types))
            self.metadata_string = ""
            # What was timed for other kernels does not hold for these.
            self.timing_cache_id = source_digest(operator)[:16]

        def get_capability_interface(self, kind: Any) -> Any:
            return self

        def clone(self) -> Any:
            return Plugin(self.statics)

        def attach_to_context(self, context: Any) -> Any:
            return self.clone()

        def get_fields_to_serialize(self) -> Any:
            return trt.PluginFieldCollection(
                [
                    trt.PluginField(
                        name, np.array([value], dtype=np.int64), trt.PluginFieldType.INT64
                    )
                    for name, value in sorted(self.statics.items())
                ]
            )

        def get_output_data_types(self, input_types: Sequence[Any]) -> list[Any]:
            floating = floating_type(operator, list(map(torch_name, input_types)))
            return [data_type(trt, port.element(floating)) for port in outputs]

        def get_output_shapes(self, given: Any, shape_inputs: Any, builder: Any) -> list[Any]:
            arithmetic = _Dimensions(trt, builder)
            symbols = operator.solve(given, arithmetic)
            shapes = []
            for port in outputs:
                shape = trt.DimsExprs(len(port.shape))
                for axis, extent in enumerate(port.shape):
                    shape[axis] = extent.evaluate(symbols, arithmetic)
                shapes.append(shape)
            return shapes

        def supports_format_combination(self, place: int, in_out: Any, num_inputs: int) -> bool:
            port = (*inputs, *outputs)[place]
            description = in_out[place].desc
            if description.format != trt.TensorFormat.LINEAR:
                return False
            if port.dtype != "T":
                return bool(description.type == data_type(trt, port.dtype))
            # All floating tensors are of one type; those behind this one may not be looked at.
            first = next(i for i, other in enumerate(inputs) if other.dtype == "T")
            same = description.type == in_out[first].desc.type
            return bool(same and torch_name(description.type) in operator.types)

        def configure_plugin(self, given: Any, results: Any) -> None:
            solved = operator.solve([tensor.desc.dims for tensor in given])
            self.statics = {name: int(solved[name]) for name in operator.statics}

        def get_valid_tactics(self) -> list[int]:
            return []

        def set_tactic(self, tactic: int) -> None:
            assert tactic == 0, f"{operator.name} chooses by itself, not by tactic {tactic}"

        def get_workspace_size(self, given: Any, results: Any) -> int:
            sizes = operator.solve([tensor.max for tensor in given])
            floating = floating_type(operator, [torch_name(t.desc.type) for t in given])
            return workspace_places(operator, sizes, floating)[1]

        def on_shape_change(self, given: Any, results: Any) -> None:
            """Shapes are looked at when work is enqueued."""

        def enqueue(
            self,
            given: Any,
            results: Any,
            input_addresses: Sequence[int],
            output_addresses: Sequence[int],
            workspace: int,
            stream: int,
        ) -> None:
            solved = operator.solve([tensor.dims for tensor in given])
            sizes = {**self.statics, ROWS: int(solved[ROWS])}
            floating = floating_type(operator, [torch_name(tensor.type) for tensor in given])
            places, _ = workspace_places(operator, sizes, floating)
            addresses = {name: workspace + place for name, place in places.items()}
            addresses |= {p.name: a for p, a in zip(inputs, input_addresses, strict=True)}
            addresses |= {p.name: a for p, a in zip(outputs, output_addresses, strict=True)}
            tensors = {
                port.name: tensor_at(
                    addresses[port.name],
                    shape_of(port, sizes),
                    _kernel_dtype(port.element(floating)),
                    device,
                )
                for port in operator.ports.values()
            }
            with _on_stream(stream, device):
                launch_all(operator, sizes, floating, tensors)

    return Plugin


class _Dimensions:
    """TensorRT's expressions for extents that are known later."""

    def __init__(self, trt: Any, builder: Any) -> None:
        self._builder = builder
        operations = trt.DimensionOperation
        self._operations = {
            "add": operations.SUM,
            "subtract": operations.SUB,
            "multiply": operations.PROD,
            "floor_divide": operations.FLOOR_DIV,
            "ceil_divide": operations.CEIL_DIV,
            "minimum": operations.MIN,
            "maximum": operations.MAX,
        }

    def constant(self, value: int) -> Any:
        return self._builder.constant(value)

    def apply(self, operation: str, left: Any, right: Any) -> Any:
        return self._builder.operation(self._operations[operation], left, right)


def _kernel_dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = torch.uint8 if name == "bool" else getattr(torch, name)
    return dtype


def _on_stream(stream: int, device: torch.device) -> AbstractContextManager[object]:
    if device.type == "cpu":
        return nullcontext()
    external = torch.cuda.ExternalStream(stream, device)  # type: ignore[no-untyped-call]
    return torch.cuda.stream(external)
