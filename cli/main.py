"""``edgevlm``: the command with verbs. A verb's module is imported only when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from ..core.manifest import edgevlm_version
from .errors import run_reporting_errors

_VERBS = {
    "build": "build an engine directory from a Hugging Face checkpoint",
    "inspect": "show what an engine directory holds and whether it is still valid",
    "verify": "compare an engine with the reference and record how close it is",
    "calibrate": "measure what the routing of experts needs to know of a checkpoint",
    "estimate": "count the memory an engine will need, before anything is built",
    "doctor": "say what works on this machine, and what is missing",
    "pruners": "list the visual-token pruners, built in and third-party",
    "serve": "answer OpenAI's HTTP interface with an engine",
    "keys": "add, list or remove the keys of the service's clients",
    "service": "install, watch or remove the service under systemd",
    "visualize": "draw which parts of an image each pruner keeps",
    "prepare_dataset": "make a data set to measure accuracy on",
    "evaluate": "measure accuracy under pruners, ratios and engines, with a report",
    "run_dart_accuracy": "compare accuracy without pruning and with DART",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``edgevlm VERB ...``; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="edgevlm", description="Qwen3-VL on NVIDIA edge devices, with visual-token pruning."
    )
    parser.add_argument("--version", action="version", version=edgevlm_version())
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    named = arguments[0] if arguments else None
    for verb, summary in _VERBS.items():
        subparser = verbs.add_parser(verb, help=summary, description=summary)
        if verb == named:
            import_module(f".{verb}", __package__).add_arguments(subparser)
    parsed = parser.parse_args(arguments)
    module = import_module(f".{parsed.verb}", __package__)
    return run_reporting_errors(lambda: int(module.run(parsed)))


if __name__ == "__main__":
    sys.exit(main())
