"""Every setting of the service, with its default and its range."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from ..core import UsageError
from ..runtime import ExpertRoutingConfig

_MAY_BE_ZERO = ("sere_threshold", "macs_gain", "macs_sensitivity")


@dataclass(frozen=True)
class ServiceConfig:
    """The settings of one running service. ``None`` means "not set".

    A field is the key of the configuration file, ``EDGEVLM_`` and its name in capitals is the
    environment variable, and ``--`` and its name with dashes is the flag. What each one means is in
    ``config_help``.

    Raises:
        UsageError: a value is out of range, or two of them contradict each other.
    """

    engine: Path
    checkpoint: Path | None = None
    device: str | None = None
    model_name: str | None = None
    slots: int | None = None
    pruning_algorithm: str | None = None
    pruning_ratio: float | Literal["auto"] = 0.25
    sere_file: Path | None = None
    sere_top_k: int = 2
    sere_threshold: float = 0.5
    sere_protect: int | None = None
    macs: bool = False
    macs_file: Path | None = None
    macs_capacity_factor: float = 1.0
    macs_gain: float = 0.5
    macs_sensitivity: float = 1.0

    host: str = "127.0.0.1"
    port: int = 8000
    keys_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    queue_size: int = 64
    queue_per_client: int = 32
    queue_timeout_s: float = 60.0
    total_timeout_s: float = 600.0
    drain_timeout_s: float = 60.0
    stall_timeout_s: float = 120.0

    max_completion_tokens: int = 1024
    max_body_mb: float = 48.0
    max_images: int = 16
    max_image_mb: float = 20.0
    max_image_megapixels: float = 50.0
    max_request_megapixels: float = 100.0
    max_connections: int = 512
    head_timeout_s: float = 15.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0

    media_fetch: bool = False
    media_timeout_s: float = 10.0
    media_redirects: int = 3
    media_folder: Path | None = None

    min_free_memory_mb: int = 512
    thermal_limit_c: float | None = None
    telemetry_interval_s: float = 1.0

    log_content: bool = False

    def __post_init__(self) -> None:
        at_least = {"queue_size": 1, "queue_per_client": 1, "max_completion_tokens": 1}
        at_least |= {"max_images": 0, "max_connections": 8, "media_redirects": 0, "slots": 1}
        at_least |= {"min_free_memory_mb": 0, "port": 0}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float):
                zero = item.name in _MAY_BE_ZERO
                inside = math.isfinite(value) and (value > 0 or (zero and value == 0))
                wanted = "a number from 0 up" if zero else "a number above 0"
                self._require(inside, item.name, wanted, value)
            least = at_least.get(item.name)
            if least is not None and value is not None:
                self._require(value >= least, item.name, f"at least {least}", value)
        self._require(self.port <= 65535, "port", "at most 65535", self.port)
        ratio = self.pruning_ratio
        inside = ratio < 1 if isinstance(ratio, float) else ratio == "auto"
        self._require(inside, "pruning_ratio", 'below 1, or "auto"', ratio)
        ExpertRoutingConfig.from_mapping(self.expert_routing)  # knows their ranges
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("tls_cert and tls_key belong together; set both or neither")
        if not self.loopback and self.keys_file is None:
            raise UsageError(
                f"host {self.host} can be reached from other machines, and no keys are set; make"
                " one with `edgevlm keys add NAME --file keys.json` and set keys_file, or use host"
                " 127.0.0.1"
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def expert_routing(self) -> dict[str, Any]:
        """How experts are routed, as :class:`~edgevlm.runtime.ExpertRoutingConfig` reads it."""
        found: dict[str, Any] = {}
        if self.sere_file is not None:
            found["sere_file"] = str(self.sere_file)
            found["sere"] = {
                "top_k": self.sere_top_k,
                "threshold": self.sere_threshold,
                "protect": self.sere_protect,
            }
        if self.macs:
            found["macs_file"] = str(self.macs_file) if self.macs_file else None
            found["macs"] = {
                "capacity_factor": self.macs_capacity_factor,
                "gain": self.macs_gain,
                "sensitivity": self.macs_sensitivity,
            }
        return found

    @property
    def served_name(self) -> str:
        """The name of the model, as clients see it."""
        return self.model_name or self.engine.absolute().name

    @staticmethod
    def _require(holds: bool, name: str, wanted: str, value: object) -> None:
        if not holds:
            raise UsageError(f"{name} must be {wanted}, got {value}")
