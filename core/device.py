"""Torch devices by the names users give them."""

from __future__ import annotations

import torch

from .errors import UsageError


def device_name(given: str | None) -> str:
    """``given``; without it, CUDA where there is one, else the CPU."""
    return given or ("cuda" if torch.cuda.is_available() else "cpu")


def torch_device(
    given: str | None, complaint: str = "--device {name} cannot be used"
) -> torch.device:
    """The device of a name such as ``cuda:1``, which was seen to hold a tensor.

    Args:
        complaint: what a message begins with, ``{name}`` in it.

    Raises:
        UsageError: there is none, or it cannot be used.
    """
    name = device_name(given)
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{complaint.format(name=name)}: {reason}") from error
    return device
