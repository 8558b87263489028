"""The errors a user can meet: each message is one line saying what, where, and what to do."""

from __future__ import annotations


class EdgeVLMError(Exception):
    """Base of every error this project raises on purpose. ``exit_code`` is the CLI's status."""

    exit_code = 1


class UsageError(EdgeVLMError):
    """A flag, a configuration value or a file named by the user is wrong."""

    exit_code = 2


class CheckpointError(EdgeVLMError):
    """A checkpoint is missing, incomplete or of an architecture this project does not run."""


class EngineError(EdgeVLMError):
    """An engine directory is missing, stale, corrupt or built for something else."""


class RequestError(EdgeVLMError):
    """One request cannot be answered. Other requests are not affected."""
