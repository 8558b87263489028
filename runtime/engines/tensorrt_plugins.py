"""Plugins that an engine needs in this process before it is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from ...core import EngineError, Manifest
from ...core.tensorrt_library import TensorRTLibrary
from ...plugins.tensorrt import classes
from ...plugins.tensorrt.classes import register_class
from ...plugins.tensorrt.operators import OPERATORS
from ...plugins.tensorrt.sources import source_files


def register_plugins(
    library: TensorRTLibrary, manifest: Manifest, directory: Path, device: torch.device
) -> None:
    """Make class-style plugins known, where the engine has any.

    What was compiled ahead of time is in the plan and needs nothing here.

    Raises:
        EngineError: the engine was built with plugins of other sources.
    """
    own = Path(classes.__file__)
    if own.name not in manifest.plugin_sources:
        return
    operators = [OPERATORS.get(name) for name in OPERATORS.names()]
    present = {path.name: path for operator in operators for path in source_files(operator)}
    present[own.name] = own
    for name, digest in manifest.plugin_sources.items():
        path = present.get(name)
        if path is None or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise EngineError(
                f"{directory}: it was built with other TensorRT plugins ({name} differs); rebuild"
                " it with edgevlm build"
            )
    for operator in operators:
        register_class(library.trt, operator, device)
