"""``edgevlm service``: the service under systemd."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``install``, ``status``, ``logs`` and ``uninstall``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="write the unit, make the user, start (as root)")
    install.add_argument("--engine", type=Path, required=True, help="engine directory")
    install.add_argument(
        "--print", action="store_true", dest="show", help="print what would be written, do nothing"
    )
    actions.add_parser("status", help="what systemd says of the service")
    logs = actions.add_parser("logs", help="the service's log")
    logs.add_argument("--follow", action="store_true", help="go on as lines are written")
    actions.add_parser("uninstall", help="stop the service and remove the unit (as root)")


def run(arguments: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    from ..jetson import unit

    if arguments.action == "install":
        if arguments.show:
            print(unit.unit_text(unit.executable()), end="")
            return 0
        return unit.install(arguments.engine)
    if arguments.action == "logs":
        return unit.logs(arguments.follow)
    return unit.status() if arguments.action == "status" else unit.uninstall()
