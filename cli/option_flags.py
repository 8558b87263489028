"""Values of flags: ``NAME=VALUE``, and ratios."""

from __future__ import annotations

import argparse
import json

from ..core import UsageError
from ..pruners import AUTO, Ratio


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


def parse_ratio(text: str) -> Ratio:
    """A fraction of visual tokens to remove, or ``auto``; its range is the pruner's to check.

    Raises:
        argparse.ArgumentTypeError: neither.
    """
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or auto, got {text!r}") from None
