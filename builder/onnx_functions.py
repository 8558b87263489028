"""How TensorRT computes our own ONNX operators: by a plugin, by a layer of its own, or literally.

An operator of ours is an ONNX function of the domain ``edgevlm`` whose body is standard ONNX.
ONNX Runtime and TensorRT for RTX compile the body. Where TensorRT has something faster, a mapping
registered here puts it in the place of the node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from ..core import Registry
from ..core.capabilities import Rule
from ..core.tensorrt_library import TensorRTLibrary
from ..plugins.functions import DOMAIN

_NO_SIZES: Mapping[str, int] = {}


@dataclass(frozen=True)
class Site:
    """Where a node is to be computed.

    Attributes:
        trt: the library's module.
        capabilities: of the GPUs, such as ``("11.0",)``.
        sizes: of the model, by the symbols of the operators.
    """

    trt: Any
    capabilities: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=lambda: _NO_SIZES)


Nodes = Callable[[onnx.NodeProto, Site], Sequence[onnx.NodeProto]]
Finish = Callable[[Any, Site, onnx.NodeProto], None]
"""``(definition, site, node)``: completes what the parser made of the nodes that replaced
``node``."""


@dataclass(frozen=True)
class PluginMapping:
    """The node becomes nodes of TensorRT plugins.

    Attributes:
        rules: where it works; one of them must hold.
        register: makes the plugins' creators known to the library.
        nodes: those that take the node's place.
        sources: the files it is made from; an engine records their digests.
        available: whether what it needs besides is installed.
    """

    rules: tuple[Rule, ...]
    register: Callable[[Site], None]
    nodes: Nodes
    sources: tuple[Path, ...] = ()
    available: Callable[[], bool] = lambda: True

    native = False

    def finish(self, definition: Any, site: Site, node: onnx.NodeProto) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True)
class NativeMapping:
    """The node becomes a layer of TensorRT's own.

    Attributes:
        rules: where it works; one of them must hold.
        nodes: those that take the node's place for the parser.
        finish: what the parser cannot do.
    """

    rules: tuple[Rule, ...]
    nodes: Nodes
    finish: Finish
    sources: tuple[Path, ...] = ()

    native = True

    def register(self, site: Site) -> None:
        """There is nothing to register."""

    def available(self) -> bool:
        """Always: it is part of the library."""
        return True


FunctionMapping = PluginMapping | NativeMapping


@dataclass(frozen=True)
class Applied:
    """Mappings that were applied to a model.

    Attributes:
        sources: the SHA-256 of each source file, by its name.
        finish: completes the parsed network.
    """

    sources: dict[str, str]
    finish: Callable[[Any], None]


class FunctionMappings:
    """The mappings of each function, best first; a function without one is compiled literally."""

    def __init__(self) -> None:
        self._registry: Registry[Sequence[FunctionMapping]] = Registry("ONNX function mapping")

    def register(self, function: str, *mappings: FunctionMapping) -> None:
        """Say how ``edgevlm.<function>`` can be computed.

        Raises:
            UsageError: it has mappings already.
        """
        self._registry.register(function)(mappings)

    def usable(
        self, library: TensorRTLibrary, capabilities: tuple[str, ...], *, native: bool = True
    ) -> dict[str, FunctionMapping]:
        """For each function the first mapping that works on all of ``capabilities``.

        Args:
            native: whether layers of TensorRT's own may be among them.
        """
        chosen: dict[str, FunctionMapping] = {}
        for function in self._registry.names():
            for mapping in self._registry.get(function):
                holds = capabilities and all(
                    any(rule.holds(library.name, library.numbers, c) for rule in mapping.rules)
                    for c in capabilities
                )
                if holds and (native or not mapping.native) and mapping.available():
                    chosen[function] = mapping
                    break
        return chosen


def apply_mappings(
    mappings: Mapping[str, FunctionMapping], model: onnx.ModelProto, site: Site
) -> Applied:
    """Replace, in place, the calls of those functions that ``model`` has."""
    sources: dict[str, str] = {}
    todo: list[tuple[FunctionMapping, onnx.NodeProto]] = []
    called = {f.name for f in model.functions if f.domain == DOMAIN}
    used = {name: mapping for name, mapping in mappings.items() if name in called}
    for mapping in used.values():
        mapping.register(site)
        for path in mapping.sources:
            sources[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        own = used.get(node.op_type) if node.domain == DOMAIN else None
        nodes.extend(own.nodes(node, site) if own else [node])
        if own:
            call = onnx.NodeProto()
            call.CopyFrom(node)
            todo.append((own, call))
    if todo:
        kept = [f for f in model.functions if f.domain != DOMAIN or f.name not in used]
        del model.graph.node[:], model.functions[:]
        model.graph.node.extend(nodes)
        model.functions.extend(kept)

    def finish(definition: Any) -> None:
        for mapping, call in todo:
            mapping.finish(definition, site, call)

    return Applied(sources, finish)


onnx_functions = FunctionMappings()
