"""The builder: configuration, profiles, progress, and a plan in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .enums import Severity
from .network import BuildFailure, Network
from .plan import Plan

_PHASES = ("Building engine", "Optimizing graph")
_STEPS = 3


class OptimizationProfile:
    def __init__(self) -> None:
        self.shapes: dict[str, tuple[tuple[int, ...], ...]] = {}

    def set_shape(self, name: str, low: Any, typical: Any, high: Any) -> None:
        shapes = (tuple(low), tuple(typical), tuple(high))
        assert all(a <= b <= c for a, b, c in zip(*shapes, strict=True)), (name, shapes)
        self.shapes[name] = shapes


class TimingCache:
    """``content`` names the GPU it was measured on."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def serialize(self) -> bytes:
        return self.content


class BuilderConfig:
    def __init__(self, gpu: str | None) -> None:
        self._gpu = gpu  # None: there is no driver
        self.progress_monitor: Any = None
        self.profiles: list[OptimizationProfile] = []
        self.num_compute_capabilities = 0
        self.capabilities: dict[int, Any] = {}
        self.timing: TimingCache | None = None

    def add_optimization_profile(self, profile: OptimizationProfile) -> None:
        self.profiles.append(profile)

    def set_compute_capability(self, capability: Any, index: int) -> None:
        assert index < self.num_compute_capabilities
        self.capabilities[index] = capability

    def create_timing_cache(self, data: bytes) -> TimingCache:
        if self._gpu is None:
            raise RuntimeError("cudaError 35: CUDA driver version is insufficient")
        return TimingCache(bytes(data))

    def set_timing_cache(self, cache: TimingCache, ignore_mismatch: bool) -> bool:
        if cache.content and cache.content != self._gpu.encode() and not ignore_mismatch:  # type: ignore[union-attr]
            return False
        self.timing = cache
        return True

    def get_timing_cache(self) -> TimingCache:
        assert self.timing is not None and self._gpu is not None
        return TimingCache(self._gpu.encode())


class Builder:
    """``library``, ``version`` and ``gpu`` are set by :class:`FakeTensorRT`."""

    library: str
    version: str
    gpu: str | None

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def create_network(self, flags: int) -> Network:
        return Network(strongly_typed=bool(flags & 2))

    def create_builder_config(self) -> BuilderConfig:
        return BuilderConfig(None if self.library == "tensorrt-rtx" else self.gpu)

    def create_optimization_profile(self) -> OptimizationProfile:
        return OptimizationProfile()

    def build_serialized_network(self, network: Network, config: BuilderConfig) -> bytes | None:
        try:
            self._report(config.progress_monitor)
            return self._plan(network, config).to_bytes()
        except BuildFailure as error:
            self._logger.log(Severity.ERROR, str(error))
            return None

    def _plan(self, network: Network, config: BuilderConfig) -> Plan:
        dynamic = {t.name for t in network.inputs if -1 in t.shape}
        if not config.profiles or any(dynamic != set(p.shapes) for p in config.profiles):
            raise BuildFailure("every profile needs the shapes of all dynamic inputs")
        if self.library == "tensorrt-rtx":
            chosen = [c.value for _, c in sorted(config.capabilities.items())]
            if len(chosen) != config.num_compute_capabilities or not chosen:
                raise BuildFailure("no compute capability was chosen")
            capabilities = [f"{value // 10}.{value % 10}" for value in chosen]
        else:
            capabilities = [self.gpu or ""]
        return Plan(
            library=self.library,
            version=self.version,
            capabilities=capabilities,
            profiles=[p.shapes for p in config.profiles],
            aliases=network.aliases(),
            model=network.model().SerializeToString(),
        )

    def _report(self, monitor: Any) -> None:
        if monitor is None:
            return
        outer, inner = _PHASES
        monitor.phase_start(outer, None, _STEPS)
        monitor.phase_start(inner, outer, _STEPS)
        try:
            for step in range(_STEPS):
                if not monitor.step_complete(inner, step):
                    raise BuildFailure("BuildCanceled (Build canceled by user)")
        finally:
            monitor.phase_finish(inner)
            monitor.phase_finish(outer)


class StreamingBuilder(Builder):
    """A builder that can hand out the plan in pieces."""

    def build_serialized_network_to_stream(
        self, network: Network, config: BuilderConfig, writer: Any
    ) -> bool:
        plan = self.build_serialized_network(network, config)
        if plan is None:
            return False
        write: Callable[[bytes], int] = writer.write
        for begin in range(0, len(plan), 2**20):
            piece = plan[begin : begin + 2**20]
            if write(piece) != len(piece):
                self._logger.log(Severity.ERROR, "the stream writer failed")
                return False
        return True
