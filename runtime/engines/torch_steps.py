"""What a decoder layer consists of besides its matrices, in plain torch.

This is what the kernels compute, and what runs where they cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ...models import Routing, rotate_half_split, top_experts
from .torch_weights import LayerWeights


@dataclass(frozen=True)
class Rows:
    """Where the ``R`` rows of one step are: in their sequences, and in the KV cache."""

    cos: Tensor  # [R,D/2]
    sin: Tensor  # [R,D/2]
    slots: Tensor  # [R] int64
    places: Tensor  # [R] int64

    def take(self, index: Tensor) -> Rows:
        """The rows ``index [n]`` int64."""
        return Rows(
            self.cos.index_select(0, index),
            self.sin.index_select(0, index),
            self.slots.index_select(0, index),
            self.places.index_select(0, index),
        )


@dataclass(frozen=True)
class LayerCache:
    """Keys and values of one layer, ``[B,Hkv,C,D]`` each."""

    k: Tensor
    v: Tensor


class Steps(Protocol):
    """The steps of a layer over ``R`` rows. ``eps`` is that of all norms."""

    def norm(self, x: Tensor, gain: Tensor) -> Tensor:
        """RMS norm of ``x [R,H]``."""

    def norm_linear(
        self, x: Tensor, gain: Tensor, weight: Tensor, dtype: torch.dtype | None = None
    ) -> Tensor:
        """``weight [N,H]`` applied to the normed ``x [R,H]``: ``[R,N]`` of ``dtype``."""

    def norm_gated(self, x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
        """``silu(gate) * up [R,I]`` with ``[gate, up] = weight [2I,H]`` of the normed ``x``."""

    def top_experts(self, hidden: Tensor, weight: Tensor, top_k: int) -> Routing:
        """What the router ``weight [N,H]`` chooses for the normed rows ``hidden [R,H]``."""

    def add_linear(self, x: Tensor, inner: Tensor, weight: Tensor) -> None:
        """Add ``weight [H,N]`` of ``inner [R,N]`` to ``x [R,H]``, in place."""

    def rotate_and_store(
        self, qkv: Tensor, layer: LayerWeights, rows: Rows, cache: LayerCache
    ) -> None:
        """Norm and rotate the queries and keys of ``qkv [R,(Hq+2Hkv)D]`` in place, and write keys
        and values to the cache."""

    def attend_cached(self, qkv: Tensor, rows: Rows, cache: LayerCache) -> Tensor:
        """Attention ``[R,Hq*D]`` of each row over its slot's places up to its own."""


def split_heads(qkv: Tensor, cache: LayerCache) -> tuple[Tensor, Tensor, Tensor]:
    """Views ``[1,Hq,R,D]``, ``[1,Hkv,R,D]`` and ``[1,Hkv,R,D]`` of ``qkv [R,(Hq+2Hkv)D]``."""
    kv_heads, width = cache.k.shape[1], cache.k.shape[3]
    heads = qkv.view(1, qkv.shape[0], -1, width).transpose(1, 2)
    return heads[:, : -2 * kv_heads], heads[:, -2 * kv_heads : -kv_heads], heads[:, -kv_heads:]


def attend_causally(qkv: Tensor, cache: LayerCache) -> Tensor:
    """Attention ``[R,Hq*D]`` among the rows themselves, each over those up to itself."""
    q, k, v = split_heads(qkv, cache)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(2)[0]


class TorchSteps:
    """Plain torch. ``attend_cached`` costs what the cache's capacity does, used or not."""

    def __init__(self, eps: float) -> None:
        self._eps = eps

    def norm(self, x: Tensor, gain: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), gain, self._eps)

    def norm_linear(
        self, x: Tensor, gain: Tensor, weight: Tensor, dtype: torch.dtype | None = None
    ) -> Tensor:
        return F.linear(self.norm(x, gain), weight).to(dtype or x.dtype)

    def norm_gated(self, x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
        gate, up = self.norm_linear(x, gain, weight).chunk(2, dim=-1)
        return F.silu(gate) * up

    def top_experts(self, hidden: Tensor, weight: Tensor, top_k: int) -> Routing:
        return top_experts(F.linear(hidden, weight), top_k)

    def add_linear(self, x: Tensor, inner: Tensor, weight: Tensor) -> None:
        x.addmm_(inner, weight.t())

    def rotate_and_store(
        self, qkv: Tensor, layer: LayerWeights, rows: Rows, cache: LayerCache
    ) -> None:
        q, k, v = split_heads(qkv, cache)
        cos, sin = rows.cos[None], rows.sin[None]  # [1,R,D/2]
        q.copy_(rotate_half_split(self.norm(q, layer.q_norm), cos, sin))
        k.copy_(rotate_half_split(self.norm(k, layer.k_norm), cos, sin))
        cache.k[rows.slots, :, rows.places] = k[0].transpose(0, 1)  # [R,Hkv,D]
        cache.v[rows.slots, :, rows.places] = v[0].transpose(0, 1)

    def attend_cached(self, qkv: Tensor, rows: Rows, cache: LayerCache) -> Tensor:
        q = split_heads(qkv, cache)[0][0].transpose(0, 1)[:, :, None]  # [R,Hq,1,D]
        reach = torch.arange(cache.k.shape[2], device=qkv.device)
        mask = (reach <= rows.places[:, None])[:, None, None]  # [R,1,1,C]
        keys, values = cache.k[rows.slots], cache.v[rows.slots]  # [R,Hkv,C,D]
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        return out.flatten(1)
