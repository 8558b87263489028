"""The language model for a GPU: fused weights, few launches, all of them capturable."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...core import EngineLimits
from ...models import TextConfig
from ...plugins.parallel import ExpertParallel
from ...pruners.kernels import usable
from .torch_experts import ExpertHost, Route
from .torch_steps import LayerCache, Rows, Steps, TorchSteps, attend_causally
from .torch_weights import FusedWeights, MoeWeights


class FusedNetwork:
    """The decoder stack over fused weights, and its KV cache.

    It computes what :class:`~edgevlm.models.TextModel` does, up to rounding. Nothing it does
    depends on the value of a tensor, so a CUDA graph of it serves any slot and any prompt of no
    more rows.
    """

    def __init__(
        self,
        config: TextConfig,
        limits: EngineLimits,
        state: Mapping[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
        capacity: int,
        steps: Steps | None = None,
        parallel: ExpertParallel | None = None,
    ) -> None:
        self.experts = ExpertHost(config, device, parallel)
        self.weights = FusedWeights.load(config, state, dtype, device, self.experts.local)
        self.steps = steps or _steps(config, self.weights.lm_head)
        shape = (limits.max_batch, config.num_kv_heads, capacity, config.head_dim)
        self.caches = [
            LayerCache(*(torch.zeros(shape, dtype=dtype, device=device) for _ in range(2)))
            for _ in range(config.num_layers)
        ]

    def prompt(
        self,
        x: Tensor,
        rows: Rows,
        planes: Tensor,
        first: int,
        end: int,
        last: Tensor | None,
        route: Route,
    ) -> Tensor:
        """Layers ``first`` to ``end`` (excluded) over the rows of one prompt.

        Args:
            x: ``[R,H]``; overwritten.
            planes: ``[P,R,H]``; plane ``i`` is added after layer ``i``.
            last: ``[1]`` int64, the one row whose result is wanted, if only that is. In the last
                layer all others then give their keys and values only.
            route: what happens to the routing of layers with experts.

        Returns:
            ``[R,H]``, or ``[1,H]`` if ``last`` is given.
        """
        for index in range(first, end):
            layer, cache = self.weights.layers[index], self.caches[index]
            qkv = self._projected(x, rows, index)
            if last is not None and index == end - 1:
                x, qkv, rows = x[last], qkv[last], rows.take(last)
                out = self.steps.attend_cached(qkv, rows, cache)
            else:
                out = attend_causally(qkv, cache)
            self.steps.add_linear(x, out, layer.o)
            self._feed_forward(x, index, route)
            if index < len(planes):
                x += planes[index] if len(x) == planes.shape[1] else planes[index][last]
        return x

    def tokens(self, x: Tensor, rows: Rows, route: Route) -> Tensor:
        """All layers over one token of each sequence, ``x [R,H]``, which is overwritten."""
        for index, (layer, cache) in enumerate(zip(self.weights.layers, self.caches, strict=True)):
            qkv = self._projected(x, rows, index)
            out = self.steps.attend_cached(qkv, rows, cache)
            self.steps.add_linear(x, out, layer.o)
            self._feed_forward(x, index, route)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """fp32 logits ``[R,V]``."""
        weights = self.weights
        return self.steps.norm_linear(x, weights.norm, weights.lm_head, torch.float32)

    def _projected(self, x: Tensor, rows: Rows, index: int) -> Tensor:
        """Rotated queries and keys, and values, ``[R,(Hq+2Hkv)D]``; the latter two are cached."""
        layer = self.weights.layers[index]
        qkv = self.steps.norm_linear(x, layer.input_norm, layer.qkv)
        self.steps.rotate_and_store(qkv, layer, rows, self.caches[index])
        return qkv

    def _feed_forward(self, x: Tensor, index: int, route: Route) -> None:
        layer = self.weights.layers[index]
        weights = layer.feed_forward
        if isinstance(weights, MoeWeights):
            hidden = self.steps.norm(x, layer.post_norm)
            routing = self.steps.top_experts(hidden, weights.router, weights.top_k)
            experts = (weights.gate_up, weights.down)
            self.experts.mixture(hidden, routing, *experts, index, route, add_to=x)
        else:
            inner = self.steps.norm_gated(x, layer.post_norm, weights.gate_up)
            self.steps.add_linear(x, inner, weights.down)


def _steps(config: TextConfig, weight: Tensor) -> Steps:
    """Kernels where they work and know the head's width."""
    width = config.head_dim
    if usable(weight) and 16 <= width <= 128 and width & (width - 1) == 0:
        from .kernels.steps import TritonSteps

        return TritonSteps(config.rms_norm_eps)
    return TorchSteps(config.rms_norm_eps)
