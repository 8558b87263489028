"""``edgevlm pruners``: the registered visual-token pruners and their options."""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import asdict
from typing import Any

from ..core import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(arguments: argparse.Namespace) -> int:
    """Print each pruner's name, what it does and its options with their defaults."""
    from ..pruners import visual_pruner_names

    descriptions = [_describe(name) for name in visual_pruner_names()]
    if arguments.json:
        print(json.dumps(descriptions, indent=2))
        return 0
    for description in descriptions:
        print(f"{description['name']:12} {description['summary']}")
        for name, value in description["options"].items():
            print(f"{'':12} option {name}={value}")
    return 0


def _describe(name: str) -> dict[str, Any]:
    """What a user needs to know of one pruner; a broken third-party one says why it is."""
    from ..pruners import VisualPrunerConfig, create_visual_pruner

    try:
        pruner = create_visual_pruner(VisualPrunerConfig(algorithm=name))
    except UsageError as error:
        return {"name": name, "summary": f"not usable: {error}", "options": {}}
    summary = (inspect.getdoc(type(pruner)) or "").split("\n")[0]
    return {"name": name, "summary": summary, "options": asdict(pruner.options)}
