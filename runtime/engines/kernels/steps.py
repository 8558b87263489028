"""The steps of a decoder layer by kernels, and by cuBLAS where many rows make it worth it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ....models import Routing
from ..torch_steps import LayerCache, Rows
from ..torch_weights import LayerWeights
from . import decode_attention, gated_linear, rotary, router
from .rms_norm import rms_norm
from .swiglu import swiglu
from .vector_linear import vector_linear


class TritonSteps:
    """See :class:`~edgevlm.runtime.engines.torch_steps.Steps`.

    A matrix product with one row has its own kernel, which takes the norm before it, or the gate
    or sum after it, along for nothing; with more rows cuBLAS reads the weights as fast. With very
    many, SwiGLU is worth a matrix product of its own.
    """

    def __init__(self, eps: float) -> None:
        self._eps = eps

    def norm(self, x: Tensor, gain: Tensor) -> Tensor:
        return rms_norm(x, gain, self._eps)

    def norm_linear(
        self, x: Tensor, gain: Tensor, weight: Tensor, dtype: torch.dtype | None = None
    ) -> Tensor:
        if len(x) == 1:
            return vector_linear(x, weight, gain=gain, eps=self._eps, dtype=dtype)
        normed = self.norm(x, gain)
        if dtype in (None, x.dtype):
            return F.linear(normed, weight)
        if x.is_cuda:  # elsewhere torch has no product that keeps its sums' precision
            return torch.mm(normed, weight.t(), out_dtype=dtype)
        return F.linear(normed, weight).to(dtype)

    def norm_gated(self, x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
        if len(x) == 1:
            return vector_linear(x, weight, gain=gain, eps=self._eps, gated=True)
        if gated_linear.pays(x):
            return gated_linear.gated_linear(self.norm(x, gain), weight)
        return swiglu(self.norm_linear(x, gain, weight))

    def top_experts(self, hidden: Tensor, weight: Tensor, top_k: int) -> Routing:
        return router.top_experts(F.linear(hidden, weight), top_k)

    def add_linear(self, x: Tensor, inner: Tensor, weight: Tensor) -> None:
        if len(x) == 1:
            vector_linear(inner, weight, add_to=x)
        else:
            x.addmm_(inner, weight.t())

    def rotate_and_store(
        self, qkv: Tensor, layer: LayerWeights, rows: Rows, cache: LayerCache
    ) -> None:
        rotary.rotate_and_store(
            qkv,
            layer.q_norm,
            layer.k_norm,
            rows.cos,
            rows.sin,
            rows.slots,
            rows.places,
            cache.k,
            cache.v,
            self._eps,
        )

    def attend_cached(self, qkv: Tensor, rows: Rows, cache: LayerCache) -> Tensor:
        return decode_attention.attend_cached(qkv, rows.slots, rows.places, cache.k, cache.v)
