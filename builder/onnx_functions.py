"""How TensorRT computes our own ONNX operators: by a plugin, by a layer of its own, or literally.

An operator of ours is an ONNX function of the domain ``edgevlm`` whose body is standard ONNX.
ONNX Runtime and TensorRT for RTX compile the body. Where TensorRT has something faster, a mapping
registered here puts it in the place of the node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from ..core import Registry
from ..core.capabilities import Rule
from ..core.tensorrt_library import TensorRTLibrary
from ..plugins.functions import DOMAIN


@dataclass(frozen=True)
class PluginMapping:
    """The node becomes the TensorRT plugin of the function's own name.

    Attributes:
        rules: where it works; one of them must hold.
        register: makes the plugin's creator known to the library, given its module.
        sources: the files it is made from; an engine records their digests.
    """

    rules: tuple[Rule, ...]
    register: Callable[[Any], None]
    sources: tuple[Path, ...] = ()

    def apply(self, function: str, model: onnx.ModelProto, trt: Any, parser: Any) -> None:
        self.register(trt)
        # With this flag a plugin wins over the body of a function of the same name.
        parser.set_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)


@dataclass(frozen=True)
class NativeMapping:
    """The node becomes an operator that TensorRT's parser turns into one of its own layers.

    Attributes:
        rules: where it works; one of them must hold.
        rewrite: changes the model in place, given the function's name.
    """

    rules: tuple[Rule, ...]
    rewrite: Callable[[onnx.ModelProto, str], None]
    sources: tuple[Path, ...] = ()

    def apply(self, function: str, model: onnx.ModelProto, trt: Any, parser: Any) -> None:
        self.rewrite(model, function)


Mapping = PluginMapping | NativeMapping


class FunctionMappings:
    """The mappings of each function, best first; a function without one is compiled literally."""

    def __init__(self) -> None:
        self._registry: Registry[Sequence[Mapping]] = Registry("ONNX function mapping")

    def register(self, function: str, *mappings: Mapping) -> None:
        """Say how ``edgevlm.<function>`` can be computed.

        Raises:
            UsageError: it has mappings already.
        """
        self._registry.register(function)(mappings)

    def usable(self, library: TensorRTLibrary, capabilities: tuple[str, ...]) -> dict[str, Mapping]:
        """For each function the first mapping that works on all of ``capabilities``."""
        chosen: dict[str, Mapping] = {}
        for function in self._registry.names():
            for mapping in self._registry.get(function):
                if capabilities and all(
                    any(rule.holds(library.name, library.numbers, c) for rule in mapping.rules)
                    for c in capabilities
                ):
                    chosen[function] = mapping
                    break
        return chosen


def apply_mappings(
    mappings: dict[str, Mapping], model: onnx.ModelProto, trt: Any, parser: Any
) -> dict[str, str]:
    """Apply the mappings of functions that ``model`` has.

    Returns:
        The SHA-256 of each source file, by its name.
    """
    sources: dict[str, str] = {}
    for function in [f.name for f in model.functions if f.domain == DOMAIN]:
        mapping = mappings.get(function)
        if mapping is None:
            continue
        mapping.apply(function, model, trt, parser)
        for path in mapping.sources:
            sources[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return sources


onnx_functions = FunctionMappings()
