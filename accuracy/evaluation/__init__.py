"""Evaluation: every sample under every setting on every engine, interruptible at any moment."""

from .answer import Answer
from .configuration import Configuration
from .engine import EngineDirs
from .ranks import follow
from .results import Results
from .run import Plan, evaluate
from .runner import RunOptions
from .setting import (
    UNPRUNED,
    Setting,
    crossed,
    parse_ratio,
    pruning_settings,
    read_settings,
)

__all__ = [
    "UNPRUNED",
    "Answer",
    "Configuration",
    "EngineDirs",
    "Plan",
    "Results",
    "RunOptions",
    "Setting",
    "crossed",
    "evaluate",
    "follow",
    "parse_ratio",
    "pruning_settings",
    "read_settings",
]
