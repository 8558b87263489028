"""``edgevlm serve``: answer OpenAI's HTTP interface with an engine."""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from ..core import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare one flag per setting."""
    from ..jetson.config_help import SETTING_HELP
    from ..jetson.config_layers import setting_types, setting_words

    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument(
        "--print-config", action="store_true", help="print every setting and where it is from"
    )
    words = setting_words()
    for name, kind in setting_types().items():
        flag = f"--{name.replace('_', '-')}"
        common: dict[str, Any] = {"default": argparse.SUPPRESS, "help": SETTING_HELP[name]}
        if kind is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
        else:
            parse = partial(_word_or, kind, words[name]) if words[name] else kind
            parser.add_argument(flag, type=parse, metavar=_METAVARS.get(kind, "TEXT"), **common)


def _word_or(kind: type, words: tuple[str, ...], text: str) -> Any:
    if text in words:
        return text
    try:
        return kind(text)
    except ValueError:
        legal = f"a {kind.__name__} or {', '.join(words)}"
        raise argparse.ArgumentTypeError(f"must be {legal}, got {text!r}") from None


_METAVARS: dict[type, str] = {int: "N", float: "X", Path: "PATH"}


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit status."""
    from ..jetson.config_layers import resolve_config, setting_types

    given = vars(arguments)
    flags = {name: given[name] for name in setting_types() if name in given}
    resolved = resolve_config(flags, os.environ, arguments.config)
    if arguments.print_config:
        values = {
            name: {"value": getattr(resolved.config, name), "from": source}
            for name, source in resolved.sources.items()
        }
        print(json.dumps(values, indent=2, default=str))
        return 0
    _require_extra()
    from ..jetson.serve import serve

    return serve(resolved.config, resolved.warnings)


def _require_extra() -> None:
    try:
        import llguidance
        import prometheus_client
        import starlette
        import uvicorn
    except ImportError as error:
        raise UsageError(
            f"the service needs {error.name}, which is not installed: pip install 'edgevlm[jetson]'"
        ) from None
    del llguidance, prometheus_client, starlette, uvicorn
