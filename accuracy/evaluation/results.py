"""A finished run."""

from __future__ import annotations

from dataclasses import dataclass

from ..datasets import Sample
from .answer import Answer, Key
from .configuration import Configuration
from .setting import Setting


@dataclass(frozen=True)
class Results:
    """Every answer of a run, with what was asked."""

    configuration: Configuration
    settings: tuple[Setting, ...]
    samples: tuple[Sample, ...]
    answers: dict[Key, Answer]
