"""Which network addresses a client may make this machine connect to."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


def is_public(address: str) -> bool:
    """Whether an address is out on the internet, also where one is wrapped in another."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(_global(inner) for inner in (parsed, *_wrapped(parsed)))


def _global(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved


def _wrapped(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """IPv4 addresses that an IPv6 address leads to by translation or a tunnel."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _COMPATIBLE:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [inner for inner in found if inner is not None]
