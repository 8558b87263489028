"""A network becomes a plan file: TensorRT's optimised, serialised form."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..core import EngineError
from ..core.capabilities import TENSORRT_RTX
from ..core.tensorrt_library import TensorRTLibrary
from .network import Network
from .onnx_functions import FunctionMapping
from .plugin_mappings import onnx_functions
from .targets import WriteOptions
from .tensorrt_log import BuildLog
from .tensorrt_network import parse_network
from .tensorrt_profiles import add_profiles
from .tensorrt_progress import BuildCancelled, BuildMonitor, run_cancellable
from .timing_cache import TimingCache

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlanSummary:
    """What was built: parsed layers by type, and the digests of plugin sources."""

    layers: dict[str, int]
    plugin_sources: dict[str, str]


def build_plan(
    library: TensorRTLibrary, network: Network, options: WriteOptions, plan: Path
) -> PlanSummary:
    """Build ``network`` for ``options.compute_capabilities`` into the file ``plan``.

    Raises:
        EngineError: TensorRT refuses the network or fails; the message gives its reason.
        BuildCancelled: the user pressed Ctrl-C.
        OSError: the plan cannot be written.
    """
    capabilities = options.compute_capabilities
    mappings = onnx_functions.usable(library, capabilities)
    try:
        return _build(library, network, options, plan, mappings)
    except BuildCancelled:
        raise
    except EngineError as error:
        # A layer can be there and yet not take these sizes or types; only building tells.
        others = onnx_functions.usable(library, capabilities, native=False)
        if others == mappings or network.kind != "llm" or not _has_experts(network):
            raise
        _logger.warning("%s; the experts are computed by the plugin instead", error)
    return _build(library, network, options, plan, others)


def _build(
    library: TensorRTLibrary,
    network: Network,
    options: WriteOptions,
    plan: Path,
    mappings: Mapping[str, FunctionMapping],
) -> PlanSummary:
    trt = library.trt
    log = BuildLog(trt)
    builder = trt.Builder(log.sink)
    parsed = parse_network(
        trt, builder, log, network, mappings, capabilities=options.compute_capabilities
    )
    config = builder.create_builder_config()
    monitor = BuildMonitor(trt, options.on_progress)
    config.progress_monitor = monitor.sink
    add_profiles(builder, config, network.contract)
    timing = None
    if library.name == TENSORRT_RTX:
        _choose_gpus(trt, config, options.compute_capabilities)
    else:
        timing = TimingCache(config, library, options)
    what = f"the {network.kind} engine"

    with plan.open("wb") as file:
        done = run_cancellable(
            lambda: _serialize(trt, builder, parsed.definition, config, file),
            monitor.cancelled,
            what,
        )
    if not done:
        raise EngineError(f"{library.title} could not build {what}: {log.reason()}")
    if timing is not None:
        timing.save()
    return PlanSummary(parsed.layers, parsed.plugin_sources)


def _has_experts(network: Network) -> bool:
    return network.checkpoint.config.text.moe is not None


def _choose_gpus(trt: Any, config: Any, capabilities: tuple[str, ...]) -> None:
    """Build for GPUs that need not be here: nothing in this path asks for a driver.

    That includes timing caches: TensorRT for RTX has no use for one, and setting one makes it look
    for a GPU.
    """
    config.num_compute_capabilities = len(capabilities)
    for index, capability in enumerate(capabilities):
        member = getattr(trt.ComputeCapability, f"SM{capability.replace('.', '')}")
        config.set_compute_capability(member, index)


def _serialize(trt: Any, builder: Any, definition: Any, config: Any, file: BinaryIO) -> bool:
    """Write the plan to ``file`` without a second copy of it in memory."""
    if not hasattr(builder, "build_serialized_network_to_stream"):
        plan = builder.build_serialized_network(definition, config)
        if plan is not None:
            file.write(memoryview(plan))
        return plan is not None
    failures: list[OSError] = []

    class Writer(trt.IStreamWriter):  # type: ignore[misc]  # a class known only at run time
        def __init__(self) -> None:
            trt.IStreamWriter.__init__(self)

        def write(self, data: bytes) -> int:
            try:
                return file.write(data)
            except OSError as error:  # may not cross the library
                failures.append(error)
                return 0

    writer = Writer()
    done = bool(builder.build_serialized_network_to_stream(definition, config, writer))
    if failures:
        raise failures[0]
    return done
