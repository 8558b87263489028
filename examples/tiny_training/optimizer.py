"""AdamW on fp32 masters, made to run inside a captured graph."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .network import TinyNetwork

_BETAS = (0.9, 0.98)
_WEIGHT_DECAY = 0.05
_CLIP = 1.0


class Trainee:
    """A network under training: fp32 masters, the copy that computes, and their moving average.

    Nothing here reads a value back from the device. A step whose gradients are not finite changes
    nothing and is counted; while ``hold`` is set, every step changes nothing (warm-up of graphs).

    Args:
        network: fp32; becomes the masters.
        dtype: of the computing copy; fp32 computes with the masters themselves.
    """

    def __init__(self, network: TinyNetwork, dtype: torch.dtype) -> None:
        self.network = network
        self.compute = network if dtype == torch.float32 else copy.deepcopy(network).to(dtype)
        self.average = copy.deepcopy(network).requires_grad_(False)
        self.masters: list[nn.Parameter] = list(network.parameters())
        # The same tensors, as the plain lists that foreach operators want.
        self._masters: list[Tensor] = list(self.masters)
        self._computing: list[Tensor] = list(self.compute.parameters())
        self._gradients = [torch.zeros_like(p) for p in self._masters]
        self._averaged: list[Tensor] = list(self.average.parameters())
        device = self.masters[0].device
        self.rate = torch.zeros((), device=device)
        self.average_rate = torch.zeros((), device=device)
        self.hold = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)
        self.optimizer = _adamw(network, self.rate)

    def zero_grad(self) -> None:
        """Forget gradients, so that the next backward pass allocates them anew."""
        for parameter in self._computing:
            parameter.grad = None

    @torch.no_grad()
    def update(self) -> Tensor:
        """Clip, step and average; returns the gradient norm (a scalar on the device)."""
        gradients = self._gradients
        torch._foreach_copy_(gradients, [_gradient(p) for p in self._computing])
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        scale = (_CLIP / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale)
        for master, gradient in zip(self.masters, gradients, strict=True):
            master.grad = gradient
        bad = (~torch.isfinite(norm)).float()
        self.skipped += bad * (1 - self.hold)
        # The fused kernel leaves parameters and moments alone where found_inf is set.
        optimizer: Any = self.optimizer
        optimizer.found_inf = torch.maximum(bad, self.hold)
        self.optimizer.step()
        self.refresh()
        change = torch._foreach_sub(self._masters, self._averaged)
        torch._foreach_mul_(change, self.average_rate * (1 - self.hold))
        torch._foreach_add_(self._averaged, change)
        return norm

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the computing copy up to date with the masters."""
        if self.compute is not self.network:
            torch._foreach_copy_(self._computing, self._masters)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: masters, average, moments."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": [
                {key: value.clone() for key, value in self.optimizer.state[p].items()}
                for p in self.masters
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore in place: captured graphs hold the addresses of these tensors."""
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        for parameter, saved in zip(self.masters, state["optimizer"], strict=True):
            for key, value in saved.items():
                self.optimizer.state[parameter][key].copy_(value)
        self.refresh()

    def load_weights(self, state: dict[str, Tensor]) -> None:
        """Start from given weights with a fresh optimizer."""
        self.network.load_state_dict(state)
        self.average.load_state_dict(state)
        self.refresh()


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        raise RuntimeError("a parameter took no part in the loss")
    return parameter.grad


def _adamw(network: TinyNetwork, rate: Tensor) -> torch.optim.AdamW:
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    cuda = rate.device.type == "cuda"
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": _WEIGHT_DECAY},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=rate,
        betas=_BETAS,
        fused=True,
        capturable=cuda,
    )
    # Moments exist from the start, at fixed addresses, so that loading and capturing see the same.
    for group in optimizer.param_groups:
        for p in group["params"]:
            optimizer.state[p] = {
                "step": torch.zeros((), device=p.device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }
    return optimizer
