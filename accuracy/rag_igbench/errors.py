"""What a metric raises where it has no value."""

from __future__ import annotations


class Undefined(ValueError):
    """A metric is not defined for one sample: its formula divides by zero, or a text is empty."""
