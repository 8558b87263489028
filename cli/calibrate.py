"""``edgevlm calibrate``: measurements of a checkpoint that its routing of experts needs."""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

# The module calibrate_<method> has add_arguments and run, like any verb.
_METHODS = {
    "sere": "how alike the experts of each layer are, from texts",
    "macs": "which experts visual and text tokens choose, from requests",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the methods and their flags."""
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    for method, summary in _METHODS.items():
        subparser = methods.add_parser(method, help=summary, description=summary)
        _module(method).add_arguments(subparser)


def run(args: argparse.Namespace) -> int:
    """Run the method; returns the exit status."""
    return int(_module(args.method).run(args))


def _module(method: str) -> ModuleType:
    return import_module(f".calibrate_{method}", __package__)
