"""Telling systemd how the service is, where it asks."""

from __future__ import annotations

import contextlib
import os
import socket


def notify_systemd(message: str) -> None:
    """Send a state to the socket that ``NOTIFY_SOCKET`` names, if it names one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address[0] == "@":
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode("utf-8", "replace"), address)
