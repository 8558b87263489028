"""Routing of an imagined mixture of experts, as uneven as a real one's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import UsageError

_TRIALS = 2  # batches per layer that a calibration looks at
_STEPS = 24


@dataclass(frozen=True)
class SyntheticRouter:
    """A token's logits are its layer's preference for each expert, plus what is its own: noise.

    Preferences and noise are normal. The larger ``skew``, the more do tokens agree, and the fewer
    experts are active in a batch.

    Attributes:
        preference: ``[L,N]`` fp32 on the CPU, of each layer for each expert.
        top_k: experts per token.
        skew: what preferences are multiplied by; the noise has a deviation of 1.
    """

    preference: Tensor
    top_k: int
    skew: float

    @classmethod
    def calibrated(
        cls,
        layers: int = 48,
        experts: int = 128,
        top_k: int = 8,
        batch: int = 128,
        active: float = 93.0,
        seed: int = 0,
    ) -> SyntheticRouter:
        """With ``active`` different experts in use in a layer, on average, at ``batch`` tokens.

        The defaults are Qwen3-30B-A3B's shape and what has been reported of it: 8 at batch 1, 93
        at batch 128.

        Raises:
            UsageError: no skew gives that many.
        """
        generator = torch.Generator().manual_seed(seed)
        preference = torch.randn(layers, experts, generator=generator)
        low, high = 0.0, 8.0  # from no agreement at all to almost perfect agreement
        if not cls(preference, top_k, high).active(batch) < active:
            least = f"{top_k} experts per token leave more than {active:g} active"
            raise UsageError(f"active experts {active:g}: {least}; ask for more")
        if not cls(preference, top_k, low).active(batch) > active:
            most = f"{batch} tokens never use as many of {experts} experts"
            raise UsageError(f"active experts {active:g}: {most}; ask for fewer")
        for _ in range(_STEPS):
            skew = (low + high) / 2
            if cls(preference, top_k, skew).active(batch) > active:
                low = skew
            else:
                high = skew
        return cls(preference, top_k, high)

    def route(
        self,
        layer: int,
        rows: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor]:
        """Ids ``[R,k]`` int64 by descending weight, and weights ``[R,k]`` that add up to 1.

        Args:
            layer: ``0..L-1``.
            rows: R, tokens.
            seed: of the tokens; equal seeds give equal routings on every device.
            dtype: of the weights.
        """
        generator = torch.Generator().manual_seed(seed * len(self.preference) + layer)
        noise = torch.randn(rows, self.preference.shape[1], generator=generator)
        probabilities = (self.skew * self.preference[layer] + noise).softmax(dim=1)  # [R,N]
        weights, ids = probabilities.topk(self.top_k, dim=1)
        weights /= weights.sum(dim=1, keepdim=True)
        return ids.to(device), weights.to(device, dtype)

    def active(self, rows: int, trials: int = _TRIALS) -> float:
        """Different experts in use by ``rows`` tokens, on average over layers and batches."""
        layers = range(len(self.preference))
        counts = [
            len(torch.unique(self.route(layer, rows, -1 - trial)[0]))
            for layer in layers
            for trial in range(trials)
        ]
        return sum(counts) / len(counts)
