"""``edgevlm keys``: the clients that may use the service."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

DEFAULT_FILE = Path("/etc/edgevlm/keys.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``add NAME``, ``list`` and ``remove NAME``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, summary in (
        ("add", "make a key for a client and print it, once"),
        ("list", "show the clients that have a key"),
        ("remove", "forget a client's key"),
    ):
        sub = actions.add_parser(action, help=summary, description=summary)
        if action != "list":
            sub.add_argument("name", help="the client: letters, digits, '.', '_' or '-'")
        sub.add_argument(
            "--file",
            type=Path,
            default=Path(os.environ.get("EDGEVLM_KEYS_FILE", DEFAULT_FILE)),
            help=f"key file (default: EDGEVLM_KEYS_FILE, else {DEFAULT_FILE})",
        )


def run(arguments: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    from ..jetson.keys import KeyFile

    file = KeyFile(arguments.file)
    if arguments.action == "add":
        print(file.add(arguments.name))
    elif arguments.action == "remove":
        file.remove(arguments.name)
    else:
        for name, entry in sorted(file.entries().items()):
            print(f"{name:24} {entry.get('created', '')}")
    return 0
