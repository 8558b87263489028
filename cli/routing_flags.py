"""The flags that control a mixture of experts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..core import UsageError
from ..plugins.macs.config import MacsConfig
from ..plugins.sere.config import SereConfig
from ..runtime import ExpertRoutingConfig, Runtime
from ..runtime.engines.routing import RoutingTotals
from ..runtime.expert_routing import routing_profile
from .option_flags import parse_option

_SERE = {
    "sereTopK": "top_k",
    "sereThreshold": "threshold",
    "sereProtect": "protect",
}
_MACS = {
    "macsCapacityFactor": "capacity_factor",
    "macsGain": "gain",
    "macsSensitivity": "sensitivity",
}


def add_routing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    sere = parser.add_argument_group("mixture of experts: SERE re-routing at decode")
    sere.add_argument("--sere", action="store_true", help="re-route secondary experts")
    sere.add_argument("--sereFile", type=Path, metavar="FILE", help="of `edgevlm calibrate sere`")
    sere.add_argument("--sereTopK", type=int, metavar="K", help="primary slots (default 2)")
    sere.add_argument(
        "--sereThreshold", type=float, metavar="RHO", help="least similarity, 0 to 1 (default 0.5)"
    )
    sere.add_argument(
        "--sereProtect",
        type=int,
        metavar="N",
        help="experts per layer that are never replaced (default an eighth; 0: none)",
    )
    _add_option(sere, "sereOption", "another setting of SERE; see docs/sere.md")
    macs = parser.add_argument_group("mixture of experts: MACS (reconstruction) at prefill")
    macs.add_argument("--macs", action="store_true", help="limit what experts take of a prompt")
    macs.add_argument("--macsFile", type=Path, metavar="FILE", help="of `edgevlm calibrate macs`")
    macs.add_argument("--macsCapacityFactor", type=float, metavar="X", help="default 1.0")
    macs.add_argument("--macsGain", type=float, metavar="X", help="default 0.5")
    macs.add_argument("--macsSensitivity", type=float, metavar="X", help="default 1.0")
    _add_option(macs, "macsOption", "another setting of MACS; see docs/macs.md")


def _add_option(group: argparse._ArgumentGroup, name: str, text: str) -> None:
    group.add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE", help=text)


def read_routing(arguments: argparse.Namespace) -> ExpertRoutingConfig:
    """What the flags ask for.

    Raises:
        UsageError: a value is wrong, or a setting is given for what is not switched on.
    """
    sere, macs = (_settings(arguments, *part) for part in (("sere", _SERE), ("macs", _MACS)))
    return ExpertRoutingConfig(
        sere=None if sere is None else SereConfig.from_mapping(sere),
        macs=None if macs is None else MacsConfig.from_mapping(macs, MacsConfig()),
        sere_file=arguments.sereFile,
        macs_file=arguments.macsFile,
    )


def profile_since(runtime: Runtime, before: RoutingTotals | None) -> dict[str, Any]:
    """What control did since ``before``, for the profile."""
    now, moe = runtime.routing_totals(), runtime.config.text.moe
    if now is None or before is None or moe is None:
        return {}
    return routing_profile(now - before, moe.top_k, moe.num_experts)


def _settings(
    arguments: argparse.Namespace, switch: str, flags: dict[str, str]
) -> dict[str, Any] | None:
    given = {flag: getattr(arguments, flag) for flag in flags}
    settings = {flags[flag]: value for flag, value in given.items() if value is not None}
    options = [
        parse_option(f"{switch}Option", text) for text in getattr(arguments, f"{switch}Option")
    ]
    if not getattr(arguments, switch):
        named = [flag for flag, value in given.items() if value is not None]
        named += [f"{switch}Option"] * bool(options)
        if named:
            raise UsageError(f"--{named[0]} has no effect without --{switch}; add --{switch}")
        return None
    for name, value in options:
        if name in flags.values():
            raise UsageError(f"--{switch}Option {name}: has a flag of its own, use that")
        settings[name] = value
    return settings
