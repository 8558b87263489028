"""Quick-deploy plugins (``tensorrt.plugin``), compiled ahead of time: no Python when they run.

One kernel a plugin and no workspace, so an operator of several launches is a chain of plugins. What
TensorRT may keep is one compiled kernel for each combination of types and tactic, whatever the
profile. Therefore a kernel here depends on types, tactic and static sizes alone, and rows enter
through symbolic expressions; which variant suits how many rows is for TensorRT to time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import Parameter, Signature
from types import GenericAlias
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ahead_of_time import compile_kernel
from .datatypes import data_type, short_name, torch_name
from .description import NAMESPACE, Operator, Variant
from .launching import floating_type
from .sizes import Size

GPU_ATTRIBUTE = "sm"  # of a node: the compute capability to compile for, 110 for 11.0
# An integer of an ONNX node arrives as an array of one; the library cannot make an int of that
# where NumPy refuses to.
_INTEGER = NDArray[np.int32]


def register_quick(trt: Any, operator: Operator) -> None:
    """Make an operator of one launch known to the library; again is no error.

    A node of it has the attributes ``operator.attributes`` and :data:`GPU_ATTRIBUTE`.
    """
    plugin = import_module(f"{trt.__name__}.plugin")
    known = getattr(plugin.op, NAMESPACE, None)
    if known is not None and hasattr(known, operator.name):
        return
    (launch,) = operator.launches
    order = [a if isinstance(a, str) else "" for a in launch.arguments]
    names = [port.name for port in operator.inputs]
    numbers = [a for a in launch.arguments if isinstance(a, Size)]
    written = [port.name for port in operator.outputs]
    assert order == [*names, *("" for _ in numbers), *written], f"{operator.name}: {order}"
    identifier = f"{NAMESPACE}::{operator.name}"
    quick = _QuickOperator(trt, plugin, operator)
    returns = GenericAlias(tuple, (plugin.TensorDesc,) * len(written))
    plugin.register(identifier)(quick.function(quick.describe, (), returns))
    combinations = GenericAlias(list, (plugin.AutoTuneCombination,))
    plugin.autotune(identifier)(quick.function(quick.combinations, ("outputs",), combinations))
    kernel = GenericAlias(tuple, (str, str, plugin.KernelLaunchParams, plugin.SymIntExprs))
    plugin.aot_impl(identifier)(quick.function(quick.compiled, ("outputs", "tactic"), kernel))


class _QuickOperator:
    """The functions of one plugin. ``given`` are its inputs' descriptions, then attributes."""

    def __init__(self, trt: Any, plugin: Any, operator: Operator) -> None:
        self.trt, self.plugin, self.operator = trt, plugin, operator
        self.launch = operator.launches[0]
        self.attributes = (*operator.attributes, GPU_ATTRIBUTE)
        self.arithmetic = _Symbolic(plugin)

    def describe(self, *given: Any) -> tuple[Any, ...]:
        """Shapes and types of the outputs."""
        symbols = self._symbols(given)
        floating = self._floating(given)
        return tuple(
            self.plugin.from_shape_expr(
                tuple(extent.evaluate(symbols, self.arithmetic) for extent in port.shape),
                data_type(self.trt, port.element(floating)),
            )
            for port in self.operator.outputs
        )

    def combinations(self, *given: Any) -> list[Any]:
        """The types it takes, and its variants as tactics for each of them."""
        ports = (*self.operator.inputs, *self.operator.outputs)
        return [
            self.plugin.AutoTuneCombination(
                ", ".join(short_name(port.element(floating)) for port in ports),
                "LINEAR",
                range(1, 1 + len(self._variants(given[:-1], floating))),
            )
            for floating in self.operator.types or ("",)
        ]

    def compiled(self, *given: Any) -> tuple[str, str, Any, Any]:
        """One variant's kernel, and how TensorRT launches it."""
        *given_first, _, tactic = given
        floating = self._floating(given_first)
        variant = self._variants(given_first, floating)[tactic - 1]
        number = self._split(given_first)[1][GPU_ATTRIBUTE]
        capability = f"{number // 10}.{number % 10}"
        kernel = compile_kernel(self.operator, self.launch, variant, floating, capability)
        symbols = self._symbols(given_first)
        parameters = self.plugin.KernelLaunchParams()
        parameters.grid_x, parameters.grid_y, parameters.grid_z = (
            extent.evaluate(symbols, self.arithmetic) for extent in variant.grid
        )
        parameters.block_x = kernel.threads
        parameters.shared_mem = kernel.shared_bytes
        numbers = [a for a in self.launch.arguments if isinstance(a, Size)]
        extra = self.plugin.SymIntExprs(len(numbers))
        for place, extent in enumerate(numbers):
            extra[place] = self.plugin.SymInt32(extent.evaluate(symbols, self.arithmetic))
        return kernel.name, kernel.ptx, parameters, extra

    def function(
        self, body: Callable[..., Any], rest: Sequence[str], returns: object
    ) -> Callable[..., Any]:
        """``body`` under the signature that the library asks for.

        The library reads types from annotations, of which strings would not do.
        """
        names = {port.name: self.plugin.TensorDesc for port in self.operator.inputs}
        names |= dict.fromkeys(self.attributes, _INTEGER)
        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters = [Parameter(n, kind, annotation=a) for n, a in names.items()]
        parameters += [Parameter(name, kind) for name in rest]
        signature = Signature(parameters, return_annotation=returns)

        def called(*arguments: Any, **named: Any) -> Any:
            return body(*signature.bind(*arguments, **named).arguments.values())

        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    def _split(self, given: Sequence[Any]) -> tuple[Sequence[Any], dict[str, int]]:
        count = len(self.operator.inputs)
        values = (int(array.reshape(-1)[0]) for array in given[count:])
        return given[:count], dict(zip(self.attributes, values, strict=True))

    def _symbols(self, given: Sequence[Any]) -> dict[str, Any]:
        tensors, attributes = self._split(given)
        constants = {name: self.arithmetic.constant(n) for name, n in attributes.items()}
        shapes = [tensor.shape_expr for tensor in tensors]
        return constants | self.operator.solve(shapes, self.arithmetic)

    def _variants(self, given: Sequence[Any], floating: str) -> tuple[Variant, ...]:
        tensors, attributes = self._split(given)
        told = self.operator.solve([tensor.shape for tensor in tensors])
        return self.launch.variants(attributes | told, floating)

    def _floating(self, given: Sequence[Any]) -> str:
        tensors, _ = self._split(given)
        return floating_type(self.operator, [torch_name(tensor.dtype) for tensor in tensors])


class _Symbolic:
    """Shape expressions of ``tensorrt.plugin``."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin
        self._functions = {
            "ceil_divide": plugin.cdiv,
            "minimum": plugin.min,
            "maximum": plugin.max,
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, b: a * b,
            "floor_divide": lambda a, b: a // b,
        }

    def constant(self, value: int) -> Any:
        return self._plugin.ShapeExpr(value)

    def apply(self, operation: str, left: Any, right: Any) -> Any:
        return self._functions[operation](left, right)
