"""How the operators on a mixture of experts are mapped: layers, plugins of either style.

Importing this module registers the mappings with :data:`~.onnx_functions.onnx_functions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import onnx
import torch

from ..core.capabilities import AHEAD_OF_TIME, CLASS_STYLE, MOE_LAYER, feature
from ..plugins.functions import DOMAIN
from ..plugins.tensorrt import classes
from ..plugins.tensorrt.classes import register_class
from ..plugins.tensorrt.description import NAMESPACE, VERSION, Operator
from ..plugins.tensorrt.operators import OPERATORS
from ..plugins.tensorrt.quick import GPU_ATTRIBUTE, register_quick
from ..plugins.tensorrt.sources import source_files
from .moe_layer import finish_moe_layer, moe_layer_nodes
from .onnx_functions import NativeMapping, PluginMapping, Site, onnx_functions

__all__ = ["onnx_functions"]


def class_mapping(operator: Operator) -> PluginMapping:
    """One plugin that launches its kernels from Python."""
    return PluginMapping(
        rules=feature(CLASS_STYLE).rules,
        register=lambda site: register_class(site.trt, operator, torch.device("cuda")),
        nodes=lambda node, site: [_plugin_node(node.name, operator, node.input, node.output)],
        # The style's own file says that the engine needs its plugins registered.
        sources=(*source_files(operator), Path(classes.__file__)),
        available=_has_triton,
    )


def quick_mapping(operator: Operator) -> PluginMapping:
    """A plugin for each launch, compiled now."""
    stages = operator.chain()

    def register(site: Site) -> None:
        for stage in stages:
            register_quick(site.trt, stage)

    def nodes(node: onnx.NodeProto, site: Site) -> list[onnx.NodeProto]:
        names = {p.name: n for p, n in zip(operator.inputs, node.input, strict=True)}
        names |= {p.name: n for p, n in zip(operator.outputs, node.output, strict=True)}
        # What goes from stage to stage is called after the node's first output.
        names |= {port.name: f"{node.output[0]}.{port.name}" for port in operator.scratch}
        (capability,) = site.capabilities
        found = []
        for stage in stages:
            attributes = {name: site.sizes[name] for name in stage.attributes}
            attributes[GPU_ATTRIBUTE] = int(capability.replace(".", ""))
            found.append(
                _plugin_node(
                    f"{node.name}.{stage.name}",
                    stage,
                    [names[port.name] for port in stage.inputs],
                    [names[port.name] for port in stage.outputs],
                    **attributes,
                )
            )
        return found

    return PluginMapping(
        rules=feature(AHEAD_OF_TIME).rules,
        register=register,
        nodes=nodes,
        sources=source_files(operator),
        available=_has_triton,
    )


def _plugin_node(
    name: str,
    operator: Operator,
    inputs: Sequence[str],
    outputs: Sequence[str],
    **attributes: int,
) -> onnx.NodeProto:
    """The parser looks a plugin up by the node's type and by what these attributes say."""
    node = onnx.helper.make_node(operator.name, inputs, outputs, name=name, domain=DOMAIN)
    settings = {"plugin_namespace": NAMESPACE, "plugin_version": VERSION, **attributes}
    node.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in settings.items())
    return node


def _has_triton() -> bool:
    return find_spec("triton") is not None


_experts, _sere, _macs = map(OPERATORS.get, ("MoeExperts", "SereRouting", "MacsCapacity"))
onnx_functions.register(
    "MoeExperts",
    NativeMapping(feature(MOE_LAYER).rules, moe_layer_nodes, finish_moe_layer),
    quick_mapping(_experts),
    class_mapping(_experts),
)
onnx_functions.register("SereRouting", quick_mapping(_sere), class_mapping(_sere))
onnx_functions.register("MacsCapacity", class_mapping(_macs))
