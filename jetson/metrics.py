"""Prometheus series. All labels exist from the start, at zero, so that rates can be taken."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .telemetry.snapshot import Snapshot
from .worker.messages import Done, EngineInfo

FINISH_REASONS = (
    "end-of-sequence",
    "length",
    "stop-words",
    "cancelled",
    "error",
    "timeout",
    "engine_lost",
    "counted",
)
REJECTIONS = (
    "client_queue_full",
    "queue_full",
    "queue_timeout",
    "low_memory",
    "engine_not_ready",
    "draining",
    "invalid_request",
    "unauthorized",
)
_LATENCY = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_JOULES = (0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """The service's own registry; nothing is global."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"edgevlm_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(f"edgevlm_{name}", help, labels, registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"edgevlm_{name}", help, registry=registry, buckets=buckets)

        self._requests = counter("requests", "Requests by how they ended", "finish_reason")
        self._rejections = counter("rejections", "Requests not taken", "reason")
        self._http = counter("http_responses", "HTTP responses", "status")
        self._prompt = counter("prompt_tokens", "Prompt tokens", "pruning")
        self._generated = counter("generation_tokens", "Generated tokens")
        self._ttft = histogram("time_to_first_token_seconds", "From arrival", _LATENCY)
        self._itl = histogram("inter_token_latency_seconds", "Mean of a request", _LATENCY)
        self._duration = histogram("request_duration_seconds", "From arrival to end", _LATENCY)
        self._request_j = histogram("request_energy_joules", "A request's share", _JOULES)
        self._waiting = gauge("requests_waiting", "Requests in the queue")
        self._running = gauge("requests_running", "Requests in the engine")
        self._ready = gauge("ready", "1 while requests can be answered")
        self._restarts = gauge("engine_restarts", "Times the engine was opened again")
        self._info = gauge("engine_info", "What is being served", "model", "target", "dtype")
        self._available = gauge("memory_available_bytes", "What can be had without swapping")
        self._held = gauge("memory_held_bytes", "What this service holds")
        self._swap = gauge("swap_used_bytes", "Swap in use")
        self._power = gauge("power_watts", "Power by rail", "rail")
        self._energy = counter("energy_joules", "Energy of the board since the service started")
        self._energy_seen = 0.0
        self._heat = gauge("temperature_celsius", "Temperature by zone", "zone")
        self._clock = gauge("clock_hertz", "Clocks", "clock")
        self._mode = gauge("power_mode_info", "The power mode in force", "mode")
        self._hot = gauge("thermal_backoff", "1 while heat holds requests back")
        for reason in FINISH_REASONS:
            self._requests.labels(reason)
        for reason in REJECTIONS:
            self._rejections.labels(reason)
        for stage in ("before", "after"):
            self._prompt.labels(stage)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)

    def depth(self, waiting: int, running: int) -> None:
        """How many requests wait and run."""
        self._waiting.set(waiting)
        self._running.set(running)

    def first_token(self, seconds: float) -> None:
        """A request got its first token."""
        self._ttft.observe(seconds)

    def answered(self, done: Done) -> None:
        """A request's tokens."""
        report = done.report or {}
        self._prompt.labels("before").inc(report.get("prompt_tokens_before", done.prompt_tokens))
        self._prompt.labels("after").inc(done.prompt_tokens)
        self._generated.inc(done.completion_tokens)
        between = done.timing.get("tpot_ms")
        if between is not None:
            self._itl.observe(between / 1e3)

    def request_ended(self, reason: str, seconds: float, joules: float | None) -> None:
        """A request that was taken has ended."""
        self._requests.labels(reason).inc()
        self._duration.observe(seconds)
        if joules is not None:
            self._request_j.observe(joules)

    def rejected(self, reason: str) -> None:
        """A request was not taken."""
        self._rejections.labels(reason if reason in REJECTIONS else "invalid_request").inc()

    def responded(self, status: int) -> None:
        """An HTTP response was begun."""
        self._http.labels(str(status)).inc()

    def engine(self, ready: bool, restarts: int, name: str, info: EngineInfo | None) -> None:
        """The engine's state."""
        self._ready.set(ready)
        self._restarts.set(restarts)
        if info is not None:
            self._info.labels(name, info.target, info.dtype).set(1)

    def board(self, snapshot: Snapshot, energy_j: float, held: int, hot: bool) -> None:
        """A reading of the board."""
        for rail, watts in snapshot.rails.items():
            self._power.labels(rail).set(watts)
        if snapshot.power_w is not None:
            self._power.labels("total").set(snapshot.power_w)
            self._energy.inc(energy_j - self._energy_seen)
            self._energy_seen = energy_j
        for zone, degrees in snapshot.temperatures.items():
            self._heat.labels(zone).set(degrees)
        for clock, hertz in snapshot.clocks.items():
            self._clock.labels(clock).set(hertz)
        if snapshot.power_mode is not None:
            self._mode.clear()
            self._mode.labels(snapshot.power_mode).set(1)
        if snapshot.memory is not None:
            self._available.set(snapshot.memory.available)
            self._swap.set(snapshot.memory.swap_used)
        self._held.set(held)
        self._hot.set(hot)
