"""Networks around existing weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

Config = TypeVar("Config")
Network = TypeVar("Network", bound=nn.Module)


def materialise(
    build: Callable[[Config], Network],
    config: Config,
    state: Mapping[str, Tensor],
    dtype: torch.dtype,
    device: torch.device,
) -> Network:
    """Build a network around existing weights: never allocates a tensor it then overwrites."""
    with torch.device("meta"):
        network = build(config)
    network.load_state_dict(state, assign=True)
    return network.to(device=device, dtype=dtype).eval().requires_grad_(False)
