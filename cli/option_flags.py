"""Flags of the form ``--flag NAME=VALUE``."""

from __future__ import annotations

import json

from ..core import UsageError


def parse_option(flag: str, text: str) -> tuple[str, int | float | str | bool]:
    """Name and value; the value is a number, true or false where it reads as one, else a word.

    Raises:
        UsageError: not of this form.
    """
    name, separator, raw = text.partition("=")
    if not name or not separator:
        raise UsageError(f"--{flag} takes NAME=VALUE, got {text!r}")
    try:
        value = json.loads(raw)
    except json.JSONDecodeError:
        value = raw
    if not isinstance(value, int | float | str | bool):
        raise UsageError(f"--{flag} {name} takes a number, a word, true or false")
    return name, value
