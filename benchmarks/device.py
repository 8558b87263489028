"""The device a benchmark runs on."""

from __future__ import annotations

import torch

from ..core.device import torch_device


def open_device(name: str) -> torch.device:
    """See :func:`~edgevlm.core.device.torch_device`."""
    return torch_device(name, "device {name!r} cannot be used")
