"""What an operator is to TensorRT, said once: tensors, and the kernels that compute them.

Both styles of plugin are made from it (:mod:`.quick`, :mod:`.classes`), as is the list of launches
that tests compare with the reference (:mod:`.launching`).

A tensor's dtype is a torch name, or ``"T"``: the floating type of the engine. Sizes are symbols;
``R``, the number of rows, is the only one that may differ from run to run. The rest are *static*:
known when an engine is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from .sizes import INTEGERS, Arithmetic, Size, size

NAMESPACE = "edgevlm"
VERSION = "1"
ROWS = "R"
FLOATING = ("float16", "bfloat16", "float32")
Statics = Mapping[str, int]


def kernel_constant(name: str) -> int:
    """What ``"module:NAME"`` of a kernel's module is; variants alone ask, as it imports Triton."""
    module, _, own = name.partition(":")
    return int(getattr(import_module(module), own))


@dataclass(frozen=True)
class Port:
    """One tensor, contiguous (TensorRT's format LINEAR)."""

    name: str
    dtype: str
    shape: tuple[Size, ...]

    @classmethod
    def of(cls, name: str, dtype: str, *shape: Size | int | str) -> Port:
        return cls(name, dtype, tuple(map(size, shape)))

    def element(self, floating: str) -> str:
        """The dtype's torch name in an engine of this floating type."""
        return floating if self.dtype == "T" else self.dtype


@dataclass(frozen=True)
class Variant:
    """One way to launch a kernel.

    Attributes:
        grid: programs along each axis, over ``R`` alone.
        constants: of the kernel, by name.
        options: of its compilation: ``num_warps`` and the like.
    """

    grid: tuple[Size, Size, Size]
    constants: Mapping[str, int]
    options: Mapping[str, int]


@dataclass(frozen=True)
class Launch:
    """One launch of a Triton kernel.

    Attributes:
        name: of this stage, to stand behind the operator's.
        kernel: ``"module:function"``, imported when it is compiled, as Triton may be absent.
        arguments: of the kernel, in its order: tensors by name, and 32-bit integers.
        writes: the tensors that are new after it.
        variants: given the static sizes it ``uses`` and the floating type. All compute the same.
        choose: which of the variants suits, given also ``R``.
        updates: tensors that it changes in place.
    """

    name: str
    kernel: str
    arguments: tuple[str | Size, ...]
    writes: tuple[str, ...]
    variants: Callable[[Statics, str], tuple[Variant, ...]]
    choose: Callable[[Statics, str], int] = lambda sizes, floating: 0
    uses: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """Its tensor arguments, each once."""
        return tuple(dict.fromkeys(a for a in self.arguments if isinstance(a, str)))

    @property
    def symbols(self) -> set[str]:
        """Sizes it needs, ``R`` included where an argument is made from it."""
        numbers = (a.symbols for a in self.arguments if isinstance(a, Size))
        return set(self.uses).union(*numbers)

    @property
    def module(self) -> str:
        """Where the kernel is."""
        return self.kernel.partition(":")[0]

    def function(self) -> Any:
        """The ``triton.jit`` function.

        Raises:
            ImportError: Triton is not installed.
        """
        return getattr(import_module(self.module), self.kernel.partition(":")[2])

    def variant(self, sizes: Statics, floating: str) -> Variant:
        """The one that suits the rows of ``sizes``."""
        return self.variants(sizes, floating)[self.choose(sizes, floating)]


@dataclass(frozen=True)
class Operator:
    """One operator, and how to compute it.

    Attributes:
        name: the plugin's, and that of the ONNX function it replaces.
        scratch: tensors from launch to launch.
        types: what ``"T"`` may stand for.
        attributes: static sizes that no input tells.
        sources: modules, the kernels' among them, that decide what it computes.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    launches: tuple[Launch, ...]
    scratch: tuple[Port, ...] = ()
    types: tuple[str, ...] = FLOATING
    attributes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    ports: dict[str, Port] = field(init=False)

    def __post_init__(self) -> None:
        ports = {port.name: port for port in (*self.inputs, *self.scratch, *self.outputs)}
        object.__setattr__(self, "ports", ports)
        known = {port.name for port in self.inputs}
        for launch in self.launches:
            early = set(launch.tensors) - set(launch.writes) - known
            assert not early, f"{self.name}{launch.name} reads {early} before they are written"
            known |= set(launch.writes)
        assert known == set(ports), f"{self.name}: nobody writes {set(ports) - known}"
        unknown = self._symbols() - set(self._solvable()) - set(self.attributes)
        assert not unknown, f"{self.name}: nothing tells {unknown}"

    @property
    def statics(self) -> tuple[str, ...]:
        """The static sizes that its launches need, in alphabetic order."""
        return tuple(sorted(self._symbols() - {ROWS}))

    def solve(
        self, shapes: Sequence[Sequence[Any]], arithmetic: Arithmetic = INTEGERS
    ) -> dict[str, Any]:
        """The values of symbols, attributes apart, that the shapes of the inputs tell."""
        found: dict[str, Any] = {}
        for symbol, (place, axis, factor) in self._solvable().items():
            value = shapes[place][axis]
            if factor != 1:
                value = arithmetic.apply("floor_divide", value, arithmetic.constant(factor))
            found[symbol] = value
        return found

    def chain(self) -> tuple[Operator, ...]:
        """An operator for each launch, whose tensors pass from one to the next.

        Raises:
            ValueError: a launch changes a tensor in place.
        """
        if any(launch.updates for launch in self.launches):
            raise ValueError(f"{self.name} changes tensors in place: it is one plugin or none")
        return tuple(map(self._stage, self.launches))

    def _stage(self, launch: Launch) -> Operator:
        inputs = tuple(self.ports[n] for n in launch.tensors if n not in launch.writes)
        outputs = tuple(self.ports[name] for name in launch.writes)
        floating = any(port.dtype == "T" for port in (*inputs, *outputs))
        told = _solvable(inputs)
        return Operator(
            name=self.name + launch.name,
            inputs=inputs,
            outputs=outputs,
            launches=(launch,),
            types=self.types if floating else (),
            attributes=tuple(sorted((_symbols(outputs) | launch.symbols) - set(told))),
            sources=self.sources,
        )

    def _symbols(self) -> set[str]:
        ports = _symbols((*self.scratch, *self.outputs))
        return ports.union(*(launch.symbols for launch in self.launches))

    def _solvable(self) -> dict[str, tuple[int, int, int]]:
        return _solvable(self.inputs)


def _symbols(ports: Sequence[Port]) -> set[str]:
    return {symbol for port in ports for extent in port.shape for symbol in extent.symbols}


def _solvable(inputs: Sequence[Port]) -> dict[str, tuple[int, int, int]]:
    """Where each symbol is an extent, or one multiplied: ``(input, axis, factor)``."""
    found: dict[str, tuple[int, int, int]] = {}
    for place, port in enumerate(inputs):
        for axis, extent in enumerate(port.shape):
            if extent.operation == "symbol":
                found.setdefault(extent.symbol, (place, axis, 1))
            elif extent.operation == "multiply" and extent.operands[1].operation == "constant":
                inner, factor = extent.operands
                if inner.operation == "symbol":
                    found.setdefault(inner.symbol, (place, axis, factor.value))
    return found
