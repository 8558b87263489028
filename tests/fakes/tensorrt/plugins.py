"""Class-style plugins: their registry, fields, symbolic shapes, and the calls a builder makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .enums import DataType, DimensionOperation, PluginFieldType, TensorFormat, TensorRTPhase

_FIELD_DTYPES = {
    PluginFieldType.FLOAT32: np.float32,
    PluginFieldType.INT32: np.int32,
    PluginFieldType.INT64: np.int64,
}
_OPERATIONS: dict[DimensionOperation, Callable[[int, int], int]] = {
    DimensionOperation.SUM: lambda a, b: a + b,
    DimensionOperation.PROD: lambda a, b: a * b,
    DimensionOperation.MAX: max,
    DimensionOperation.MIN: min,
    DimensionOperation.SUB: lambda a, b: a - b,
    DimensionOperation.FLOOR_DIV: lambda a, b: a // b,
    DimensionOperation.CEIL_DIV: lambda a, b: -(-a // b),
}


class _Interface:
    """A class for users to derive from, who must call each one's ``__init__``."""

    def __init__(self) -> None:
        self.__dict__.setdefault("bases", set())

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:

            def initialise(self: _Interface) -> None:
                self.__dict__.setdefault("bases", set()).add(cls.__name__)

            cls.__init__ = initialise  # type: ignore[method-assign]


class IPluginV3(_Interface):
    pass


class IPluginV3OneCore(_Interface):
    pass


class IPluginV3OneBuild(_Interface):
    pass


class IPluginV3OneRuntime(_Interface):
    pass


class IPluginCreatorV3One(_Interface):
    pass


_BASES = {"IPluginV3", "IPluginV3OneCore", "IPluginV3OneBuild", "IPluginV3OneRuntime"}
_ATTRIBUTES = {
    "plugin_name": str,
    "plugin_version": str,
    "plugin_namespace": str,
    "num_outputs": int,
    "format_combination_limit": int,
    "metadata_string": str,
    "timing_cache_id": str,
}


class PluginField:
    """``data`` must be an array of the element type that ``type`` names."""

    def __init__(self, name: str, data: Any, type: PluginFieldType) -> None:
        assert isinstance(data, np.ndarray) and data.dtype == _FIELD_DTYPES[type], (name, type)
        self.name, self.data, self.type = name, data, type


class PluginFieldCollection(list[PluginField]):
    """What creators are given."""

    def __init__(self, fields: Iterable[PluginField]) -> None:
        super().__init__(fields)
        assert all(isinstance(field, PluginField) for field in self)


@dataclass(frozen=True)
class DimensionExpr:
    """An extent; ``value`` is its number once sizes are known."""

    value: Callable[[Mapping[str, int]], int]
    constant: bool = False

    def is_constant(self) -> bool:
        return self.constant

    def get_constant_value(self) -> int:
        assert self.constant, "the extent is not constant"
        return self.value({})


class ExprBuilder:
    def constant(self, value: int) -> DimensionExpr:
        assert type(value) is int, f"{value!r} is no int"
        return DimensionExpr(lambda sizes: value, constant=True)

    def operation(self, kind: DimensionOperation, a: DimensionExpr, b: DimensionExpr) -> Any:
        assert isinstance(a, DimensionExpr) and isinstance(b, DimensionExpr), (a, b)
        apply = _OPERATIONS[kind]
        return DimensionExpr(
            lambda sizes: apply(a.value(sizes), b.value(sizes)), a.constant and b.constant
        )


class DimsExprs:
    """As many extents as it was made for."""

    def __init__(self, count: int) -> None:
        self._extents: list[DimensionExpr | None] = [None] * count

    def __len__(self) -> int:
        return len(self._extents)

    def __getitem__(self, axis: int) -> DimensionExpr:
        extent = self._extents[axis]
        assert extent is not None, f"extent {axis} was never set"
        return extent

    def __setitem__(self, axis: int, extent: DimensionExpr) -> None:
        assert isinstance(extent, DimensionExpr), f"{extent!r} is no expression"
        self._extents[axis] = extent

    def __iter__(self) -> Iterator[DimensionExpr]:
        return (self[axis] for axis in range(len(self)))


def dims_of(shape: Sequence[int | str]) -> DimsExprs:
    """Expressions for a shape with symbols."""
    dims, builder = DimsExprs(len(shape)), ExprBuilder()
    for axis, extent in enumerate(shape):
        dims[axis] = (
            builder.constant(extent)
            if isinstance(extent, int)
            else DimensionExpr(lambda sizes, name=extent: sizes[name])  # type: ignore[misc]
        )
    return dims


@dataclass
class PluginTensorDesc:
    dims: tuple[int, ...]
    type: DataType
    format: TensorFormat = TensorFormat.LINEAR
    scale: float = 1.0


@dataclass
class DynamicPluginTensorDesc:
    desc: PluginTensorDesc
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


class _Unseen:
    """A description that may not be looked at yet."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("a description behind the one that is asked for was looked at")


class Registry:
    """A creator is found by name, version and namespace, and each is there once."""

    def __init__(self) -> None:
        self.creators: dict[tuple[str, str, str], Any] = {}

    def register_creator(self, creator: Any, namespace: str = "") -> bool:
        for name in ("name", "plugin_version", "plugin_namespace", "field_names"):
            assert hasattr(creator, name), f"the creator has no {name}"
        assert creator.plugin_namespace == namespace
        key = (creator.name, creator.plugin_version, namespace)
        if key in self.creators:
            return False
        self.creators[key] = creator
        return True

    def get_creator(self, name: str, version: str, namespace: str = "") -> Any:
        return self.creators.get((name, version, namespace))


def check_attributes(plugin: Any) -> None:
    """Every interface initialised, every attribute set."""
    assert plugin.bases == _BASES, f"not initialised: {_BASES - plugin.bases}"
    for name, kind in _ATTRIBUTES.items():
        assert isinstance(getattr(plugin, name, None), kind), f"{name} not initialized"


class PluginRun:
    """What a builder and then a runtime do with one plugin of ``creator``.

    Args:
        types: of the inputs.
        shapes: of the inputs; a name is an extent that differs from run to run.
        profile: for each name its least, typical and largest value.
    """

    def __init__(
        self,
        creator: Any,
        types: Sequence[DataType],
        shapes: Sequence[Sequence[int | str]],
        profile: Mapping[str, tuple[int, int, int]],
    ) -> None:
        self.creator, self.types, self.shapes = creator, types, shapes
        fields = PluginFieldCollection([])
        plugin = creator.create_plugin(creator.name, fields, TensorRTPhase.BUILD)
        check_attributes(plugin)
        self.output_types = plugin.get_output_data_types(list(types))
        dims = list(map(dims_of, shapes))
        self.output_dims = plugin.get_output_shapes(dims, [], ExprBuilder())
        assert len(self.output_types) == len(self.output_dims) == plugin.num_outputs
        self._check_formats(plugin)
        copy = plugin.clone()
        assert copy is not plugin and type(copy) is type(plugin)
        ends = [{name: values[i] for name, values in profile.items()} for i in range(3)]
        described = self._described(dict.fromkeys(profile, -1), *ends)
        copy.configure_plugin(*described)
        self.workspace_bytes = copy.get_workspace_size(*described)
        self.unconfigured, self.configured = plugin, copy.clone()
        self.plan = [
            (field.name, field.type, field.data.tobytes())
            for field in copy.get_fields_to_serialize()
        ]

    def supports(self, plugin: Any, types: Sequence[DataType], formats: Any = None) -> bool:
        """Whether it takes these types of inputs and outputs, asked one after another."""
        formats = formats or [TensorFormat.LINEAR] * len(types)
        shown: list[Any] = []
        for place, (kind, layout) in enumerate(zip(types, formats, strict=True)):
            desc = PluginTensorDesc((), kind, layout)
            shown.append(DynamicPluginTensorDesc(desc, (), (), ()))
            rest = [_Unseen()] * (len(types) - place - 1)
            if not plugin.supports_format_combination(place, [*shown, *rest], len(self.types)):
                return False
        return True

    def load(self) -> Any:
        """The plugin of a context, from what the plan holds."""
        fields = PluginFieldCollection(
            PluginField(name, np.frombuffer(data, _FIELD_DTYPES[kind]), kind)
            for name, kind, data in self.plan
        )
        plugin = self.creator.create_plugin(self.creator.name, fields, TensorRTPhase.RUNTIME)
        attached = plugin.attach_to_context(None)
        assert attached is not plugin, "a context needs a plugin of its own"
        return attached

    def output_shapes(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        return [tuple(extent.value(sizes) for extent in dims) for dims in self.output_dims]

    def _check_formats(self, plugin: Any) -> None:
        everything = [*self.types, *self.output_types]
        assert self.supports(plugin, everything), "its own types are not supported"
        for place in range(len(everything)):
            formats = [TensorFormat.LINEAR] * len(everything)
            formats[place] = TensorFormat.CHW32
            assert not self.supports(plugin, everything, formats), "only LINEAR was meant"

    def _described(self, unknown: Mapping[str, int], *ends: Mapping[str, int]) -> Any:
        def describe(dims: DimsExprs, kind: DataType) -> DynamicPluginTensorDesc:
            shapes = [tuple(extent.value(s) for extent in dims) for s in (unknown, *ends)]
            return DynamicPluginTensorDesc(PluginTensorDesc(shapes[0], kind), *shapes[1:])

        given = map(describe, map(dims_of, self.shapes), self.types)
        return list(given), list(map(describe, self.output_dims, self.output_types))

    def enqueue(
        self,
        plugin: Any,
        sizes: Mapping[str, int],
        inputs: Sequence[int],
        outputs: Sequence[int],
        workspace: int,
        stream: int = 0x57EA,
    ) -> None:
        """One run at addresses."""
        given = [
            PluginTensorDesc(tuple(e.value(sizes) for e in dims_of(shape)), kind)
            for shape, kind in zip(self.shapes, self.types, strict=True)
        ]
        results = [
            PluginTensorDesc(shape, kind)
            for shape, kind in zip(self.output_shapes(sizes), self.output_types, strict=True)
        ]
        plugin.on_shape_change(given, results)
        done = plugin.enqueue(given, results, list(inputs), list(outputs), workspace, stream)
        assert done is None, "enqueue returns nothing and raises what goes wrong"
