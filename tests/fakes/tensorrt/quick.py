"""``tensorrt.plugin``: decorators, their signature rules, and what a builder asks of a plugin."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .enums import DataType, DimensionOperation
from .plugins import DimensionExpr, ExprBuilder, Registry, dims_of

_TYPES = {"FP32": DataType.FLOAT, "FP16": DataType.HALF}
_RESERVED = {"", "trt", "tensorrt", "std"}
_ATTRIBUTE_TYPES = (float, bytes, bool, str, NDArray[np.int32], NDArray[np.float32])


class ShapeExpr:
    """An extent. Without an expression it is a dummy, as when only types are asked for.

    Like the library's, it has no reflected operators: ``2 * extent`` is an error.
    """

    def __init__(self, value: Any = None) -> None:
        if isinstance(value, ShapeExpr):
            value = value.expr
        self.expr: DimensionExpr | None = (
            ExprBuilder().constant(value) if isinstance(value, int) else value
        )

    def _op(self, kind: DimensionOperation, other: Any) -> ShapeExpr:
        right = other if isinstance(other, ShapeExpr) else ShapeExpr(other)
        if self.expr is None or right.expr is None:
            return ShapeExpr()
        return ShapeExpr(ExprBuilder().operation(kind, self.expr, right.expr))

    def __add__(self, other: Any) -> ShapeExpr:
        return self._op(DimensionOperation.SUM, other)

    def __sub__(self, other: Any) -> ShapeExpr:
        return self._op(DimensionOperation.SUB, other)

    def __mul__(self, other: Any) -> ShapeExpr:
        return self._op(DimensionOperation.PROD, other)

    def __floordiv__(self, other: Any) -> ShapeExpr:
        return self._op(DimensionOperation.FLOOR_DIV, other)


class SymInt32(ShapeExpr):
    pass


class SymIntExprs(list[Any]):
    def __init__(self, count: int) -> None:
        super().__init__([None] * count)


class TensorDesc:
    """``shape`` is there once a profile is looked at; -1 is an extent that is not known."""

    def __init__(self, shape_expr: Sequence[ShapeExpr], dtype: DataType) -> None:
        self.shape_expr, self.dtype = list(shape_expr), dtype
        self.shape: tuple[int, ...] | None = None


class KernelLaunchParams:
    """Extents as expressions or numbers, and nothing else."""

    _NAMES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_mem")

    def __init__(self) -> None:
        for name in self._NAMES:
            setattr(self, name, 0 if name == "shared_mem" else 1)

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self._NAMES, f"no attribute {name}"
        assert isinstance(value, (int, ShapeExpr)), f"{name}: {value!r}"
        self.__dict__[name] = SymInt32(value)


class AutoTuneCombination:
    def __init__(self, io_types: str, layouts: str, tactics: Iterable[int]) -> None:
        assert layouts == "LINEAR"
        self.types = [_TYPES.get(n) or DataType[n] for n in io_types.replace(" ", "").split(",")]
        self.tactics = list(tactics)
        assert all(tactic > 0 for tactic in self.tactics), "tactics are positive"
        assert len(set(self.tactics)) == len(self.tactics), "tactics are unique"


class QuickPlugin:
    """One registered plugin."""

    def __init__(self, inputs: list[str], attributes: dict[str, Any], outputs: int) -> None:
        self.inputs, self.attributes, self.num_outputs = inputs, attributes, outputs
        self.register: Callable[..., Any] | None = None
        self.autotune: Callable[..., Any] | None = None
        self.aot: Callable[..., Any] | None = None


class PluginModule(ModuleType):
    """The module; ``plugins`` is what was registered."""

    def __init__(self, name: str, registry: Registry) -> None:
        super().__init__(name)
        self._registry = registry
        self.plugins: dict[str, QuickPlugin] = {}
        self.op = SimpleNamespace()
        self.TensorDesc, self.ShapeExpr, self.SymInt32 = TensorDesc, ShapeExpr, SymInt32
        self.SymIntExprs, self.KernelLaunchParams = SymIntExprs, KernelLaunchParams
        self.AutoTuneCombination = AutoTuneCombination
        self.cdiv = _function(DimensionOperation.CEIL_DIV)
        self.min = _function(DimensionOperation.MIN)
        self.max = _function(DimensionOperation.MAX)

    def from_shape_expr(self, shape: tuple[Any, ...], dtype: DataType) -> TensorDesc:
        assert isinstance(shape, tuple) and isinstance(dtype, DataType)
        return TensorDesc([ShapeExpr(extent) for extent in shape], dtype)

    def register(self, identifier: str) -> Callable[[Any], Any]:
        namespace, name = identifier.split("::")
        assert namespace not in _RESERVED and "." not in identifier

        def decorate(function: Any) -> Any:
            if identifier in self.plugins:
                raise ValueError(f"'{namespace}' already has a defintion for '{name}'")
            plugin = QuickPlugin(*_register_signature(function))
            plugin.register = function
            self.plugins[identifier] = plugin
            own = self.op.__dict__.setdefault(namespace, SimpleNamespace())
            setattr(own, name, plugin)
            creator = SimpleNamespace(
                name=name,
                plugin_version="1",
                plugin_namespace=namespace,
                field_names=list(plugin.attributes),
            )
            assert self._registry.register_creator(creator, namespace)
            return function

        return decorate

    def autotune(self, identifier: str) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            plugin = self._check(identifier, function, ("outputs",))
            returned = inspect.signature(function).return_annotation
            assert typing.get_origin(returned) is list
            assert typing.get_args(returned) == (AutoTuneCombination,)
            plugin.autotune = function
            return function

        return decorate

    def aot_impl(self, identifier: str) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            plugin = self._check(identifier, function, ("outputs", "tactic"))
            returned = inspect.signature(function).return_annotation
            assert typing.get_origin(returned) is tuple
            expected = (str, str, KernelLaunchParams, SymIntExprs)
            assert typing.get_args(returned) == expected
            plugin.aot = function
            return function

        return decorate

    def _check(self, identifier: str, function: Any, rest: tuple[str, ...]) -> QuickPlugin:
        plugin = self.plugins[identifier]
        names = tuple(inspect.signature(function).parameters)
        assert names == (*plugin.inputs, *plugin.attributes, *rest), names
        return plugin


class QuickRun:
    """What a builder does with one plugin.

    Args:
        shapes: of the inputs; a name is an extent that differs from run to run.
    """

    def __init__(
        self,
        plugin: QuickPlugin,
        types: Sequence[DataType],
        shapes: Sequence[Sequence[int | str]],
        attributes: Mapping[str, int],
    ) -> None:
        assert set(attributes) == set(plugin.attributes), (attributes, plugin.attributes)
        assert plugin.register and plugin.autotune and plugin.aot
        self._plugin = plugin
        # As the ONNX parser passes integers.
        values = {name: np.array([value], np.int32) for name, value in attributes.items()}
        self._attributes = values
        # First types alone, when nothing is known of extents but how many there are.
        dummies = [
            TensorDesc([ShapeExpr() for _ in shape], kind)
            for kind, shape in zip(types, shapes, strict=True)
        ]
        first = _tuple(plugin.register(*dummies, **values))
        self.inputs = [
            TensorDesc([ShapeExpr(extent) for extent in dims_of(shape)], kind)
            for kind, shape in zip(types, shapes, strict=True)
        ]
        self.outputs = _tuple(plugin.register(*self.inputs, **values))
        assert [d.dtype for d in first] == [d.dtype for d in self.outputs]
        assert len(self.outputs) == plugin.num_outputs
        for desc, shape in zip(self.inputs, shapes, strict=True):
            desc.shape = tuple(extent if isinstance(extent, int) else -1 for extent in shape)
        for desc in self.outputs:
            assert all(extent.expr is not None for extent in desc.shape_expr)
            constants = (e.expr.is_constant() and e.expr.value({}) for e in desc.shape_expr)
            desc.shape = tuple(-1 if value is False else value for value in constants)

    def combinations(self) -> dict[tuple[DataType, ...], list[int]]:
        """Types of inputs and outputs, and the tactics for them."""
        assert self._plugin.autotune is not None
        values = self._attributes.values()
        found = self._plugin.autotune(*self.inputs, *values, self.outputs)
        return {tuple(combination.types): combination.tactics for combination in found}

    def kernel(self, tactic: int) -> tuple[str, str, KernelLaunchParams, SymIntExprs]:
        """What goes into the engine for one tactic; attributes do not."""
        assert self._plugin.aot is not None
        values = self._attributes.values()
        name, ptx, launch, extra = self._plugin.aot(*self.inputs, *values, self.outputs, tactic)
        assert isinstance(name, str) and isinstance(ptx, str)
        assert isinstance(launch, KernelLaunchParams)
        assert all(isinstance(number, SymInt32) for number in extra)
        return name, ptx, launch, extra

    def output_shapes(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        return [tuple(number(e, sizes) for e in desc.shape_expr) for desc in self.outputs]


def number(extent: ShapeExpr, sizes: Mapping[str, int]) -> int:
    """What TensorRT computes when it runs."""
    assert extent.expr is not None
    return extent.expr.value(sizes)


def _register_signature(function: Any) -> tuple[list[str], dict[str, Any], int]:
    signature = inspect.signature(function)
    inputs: list[str] = []
    attributes: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert parameter.default is inspect.Parameter.empty, f"{name} has a default value"
        # A string, as postponed annotations are, is no type.
        assert not isinstance(parameter.annotation, str), f"{name} has no type annotation"
        if parameter.annotation is TensorDesc:
            assert not attributes, "tensors come before attributes"
            inputs.append(name)
        else:
            # An int would do for the library, but not for an ONNX node's array of one integer.
            assert parameter.annotation in _ATTRIBUTE_TYPES, f"{name} cannot be passed on"
            assert name not in ("outputs", "stream", "tactic")
            attributes[name] = parameter.annotation
    returned = signature.return_annotation
    assert typing.get_origin(returned) is tuple
    descriptions = typing.get_args(returned)
    assert all(issubclass(kind, TensorDesc) for kind in descriptions)
    return inputs, attributes, len(descriptions)


def _function(kind: DimensionOperation) -> Callable[[Any, Any], ShapeExpr]:
    def apply(first: Any, second: Any) -> ShapeExpr:
        if isinstance(first, int) and isinstance(second, int):
            raise ValueError("Both arguments cannot be 'int's")
        return (first if isinstance(first, ShapeExpr) else ShapeExpr(first))._op(kind, second)

    return apply


def _tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)
