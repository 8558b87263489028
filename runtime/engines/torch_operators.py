"""Eager attention for the torch backend: a static KV cache, written in place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core import PipelineIO
from ...models import Routing, rotate_half_split
from .torch_experts import ExpertHost, PromptRoute, TokenRoute
from .torch_steps import LayerCache


class PrefillOperators:
    """Fresh prompt into one slot: causal over the prompt itself, keys and values kept."""

    rotate = staticmethod(rotate_half_split)

    def __init__(
        self, caches: list[LayerCache], slot: int, experts: ExpertHost, io: PipelineIO
    ) -> None:
        self._caches, self._slot, self._experts = caches, slot, experts
        self._route = PromptRoute.of(experts, io)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        length = k.shape[2]
        cache = self._caches[layer]
        cache.k[self._slot, :, :length] = k[0]  # [Hkv,S,D]
        cache.v[self._slot, :, :length] = v[0]
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        return routing  # control goes with the products, where ranks may share the work

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        weights = (self._experts.local(gate_up), self._experts.local(down))
        return self._experts.mixture(hidden, routing, *weights, layer, self._route)


class DecodeOperators:
    """One new token for each of the first ``n`` slots."""

    rotate = staticmethod(rotate_half_split)

    def __init__(
        self, caches: list[LayerCache], lengths: tuple[int, ...], experts: ExpertHost
    ) -> None:
        device = caches[0].k.device
        self._caches, self._experts = caches, experts
        self._rows = torch.arange(len(lengths), device=device)
        self._route = TokenRoute(experts, torch.ones_like(self._rows, dtype=torch.bool))
        self._write = torch.tensor(lengths, device=device)  # [n]
        self._reach = max(lengths) + 1
        slots = torch.arange(self._reach, device=device)
        self._mask = (slots <= self._write[:, None])[:, None, None]  # [n,1,1,reach]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        n = len(self._rows)
        keys, values = self._caches[layer].k, self._caches[layer].v
        keys[self._rows, :, self._write] = k[:, :, 0]  # [n,Hkv,D]
        values[self._rows, :, self._write] = v[:, :, 0]
        return F.scaled_dot_product_attention(
            q,
            keys[:n, :, : self._reach],
            values[:n, :, : self._reach],
            attn_mask=self._mask,
            enable_gqa=True,
        )

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        return routing  # see above

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        weights = (self._experts.local(gate_up), self._experts.local(down))
        return self._experts.mixture(hidden, routing, *weights, layer, self._route)


class VisionOperators:
    """Full attention inside each image; padding keys are masked."""

    rotate = staticmethod(rotate_half_split)

    def __init__(self, patch_lengths: Tensor, padded: int) -> None:
        self._mask: Tensor | None = None
        if bool((patch_lengths != padded).any()):
            keys = torch.arange(padded, device=patch_lengths.device)
            self._mask = (keys < patch_lengths[:, None])[:, None, None]  # [I,1,1,N]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask)
