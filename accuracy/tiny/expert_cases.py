"""The ways of routing experts that are compared on the tiny mixture of experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...runtime import ExpertRoutingConfig

FACTORS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
_SERE_TOP_K = (1, 2)
_THRESHOLDS = (0.0, 0.5, 0.6)
_PROTECTED = (0, 2)
_LIMITS: dict[str, dict[str, Any]] = {
    "Token Drop": {"method": "token_drop"},
    "Expanded Drop": {"method": "expanded_drop", "devices": 4},
    "MACS, no re-routing": {"reroute": False},
    "MACS": {},
}


@dataclass(frozen=True)
class Case:
    """One way of routing. ``group`` is the table it belongs to; ``factor`` its capacity factor."""

    group: str
    name: str
    routing: ExpertRoutingConfig
    factor: float | None = None


def cases(sere_file: Path, macs_file: Path) -> Iterator[Case]:
    """All of them; the first is the router's own choice."""
    yield Case("whole", "top-4, as routed", ExpertRoutingConfig())
    for prompts in (False, True):
        for top_k in (1, 2):
            where = "everywhere" if prompts else "at decode"
            raw: dict[str, Any] = {"truncation": {"top_k": top_k, "prompts": prompts}}
            yield _case("decode", f"top-{top_k} {where}", raw)
    for top_k in _SERE_TOP_K:
        for threshold in _THRESHOLDS:
            for protect in _PROTECTED:
                raw = {
                    "sere": {"top_k": top_k, "threshold": threshold, "protect": protect},
                    "sere_file": str(sere_file),
                }
                name = f"SERE K={top_k} rho={threshold:g}, {protect} protected"
                yield _case("decode", name, raw)
    sere = {"top_k": 2, "threshold": 0.5, "protect": 2, "ramp_batch": [1, 16], "least_top_k": 1}
    yield _case(
        "decode",
        "SERE K=2 falling to 1 with the batch",
        {"sere": sere, "sere_file": str(sere_file)},
    )
    for name, options in _LIMITS.items():
        for factor in FACTORS:
            macs = {"capacity_factor": factor, **options}
            yield _case("prefill", name, {"macs": macs, "macs_file": str(macs_file)}, factor)


def _case(group: str, name: str, raw: dict[str, Any], factor: float | None = None) -> Case:
    return Case(group, name, ExpertRoutingConfig.from_mapping(raw), factor)
