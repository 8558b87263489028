"""The device a benchmark runs on."""

from __future__ import annotations

import torch

from ..core import UsageError


def open_device(name: str) -> torch.device:
    """The device of a name such as ``cuda:1``, which was seen to hold a tensor.

    Raises:
        UsageError: there is none, or it cannot be used.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device {name!r} cannot be used: {reason}") from error
    return device
