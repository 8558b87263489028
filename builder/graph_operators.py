"""The networks' leaf operators as ONNX nodes: what the exported graph computes with.

Each call below traces to one node of the standard domain: RotaryEmbedding-23, TensorScatter-24,
Attention-24.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

STAND_IN = "BlockStandIn"
_SYMBOLIC_OPSET = 24


class TextGraphOperators:
    """Cached causal attention. ``k_out, v_out`` collect the updated caches in layer order."""

    def __init__(
        self,
        k_caches: Sequence[Tensor],  # each [B,Hkv,C,D]
        v_caches: Sequence[Tensor],  # each [B,Hkv,C,D]
        write_indices: Tensor,  # [B] int64
        kv_lengths: Tensor,  # [B] int64
    ) -> None:
        self.k_caches, self.v_caches = k_caches, v_caches
        self.write_indices, self.kv_lengths = write_indices, kv_lengths
        self.k_out: list[Tensor] = []
        self.v_out: list[Tensor] = []

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return torch.onnx.ops.rotary_embedding(x, cos, sin)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        k_cache = self._write(self.k_caches[layer], k)
        v_cache = self._write(self.v_caches[layer], v)
        self.k_out.append(k_cache)
        self.v_out.append(v_cache)
        # Causal with lengths is aligned bottom-right: the last row sees kv_lengths slots.
        return _attention(q, k_cache, v_cache, self.kv_lengths, is_causal=1)

    def stand_in(self, x: Tensor, cos: Tensor, sin: Tensor, index: int) -> Tensor:
        k_cache, v_cache = self.k_caches[index], self.v_caches[index]
        lengths = (self.write_indices, self.kv_lengths)
        shapes = (x.shape, k_cache.shape, v_cache.shape)
        x, k_out, v_out = _block_node((x, cos, sin, k_cache, v_cache, *lengths), shapes, index)
        self.k_out.append(k_out)
        self.v_out.append(v_out)
        return x

    def _write(self, cache: Tensor, rows: Tensor) -> Tensor:
        return torch.onnx.ops.symbolic(
            "TensorScatter",
            (cache, rows, self.write_indices),
            {"axis": -2},
            dtype=cache.dtype,
            shape=cache.shape,
            version=_SYMBOLIC_OPSET,
        )


class VisionGraphOperators:
    """Full attention inside each image; ``patch_lengths [I]`` hides its padding.

    ``watched`` are the queries and keys ``[I,heads,N,D]`` of the block that is traced, or of the
    stand-in number ``watch``.
    """

    def __init__(self, patch_lengths: Tensor, watch: int | None = None) -> None:
        self.patch_lengths = patch_lengths
        self.watched: tuple[Tensor, ...] = ()
        self._watch = watch

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return torch.onnx.ops.rotary_embedding(x, cos, sin)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        self.watched = (q, k)
        return _attention(q, k, v, self.patch_lengths, is_causal=0)

    def stand_in(self, x: Tensor, cos: Tensor, sin: Tensor, index: int) -> Tensor:
        shapes: list[Sequence[int]] = [x.shape]
        if index == self._watch:
            images, patches, hidden = x.shape
            width = 2 * cos.shape[-1]
            shapes += 2 * [(images, hidden // width, patches, width)]
        x, *watched = _block_node((x, cos, sin, self.patch_lengths), shapes, index)
        self.watched += tuple(watched)
        return x


class BlockStandIn(nn.Module):
    """Takes the place of block ``index``: one node, which splicing replaces by the block's graph.

    All blocks of a network are alike but for their weights, so tracing one serves all.
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        ops: TextGraphOperators | VisionGraphOperators,
    ) -> Tensor:
        return ops.stand_in(x, cos, sin, self.index)


def _attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, *, is_causal: int) -> Tensor:
    return torch.onnx.ops.symbolic(
        "Attention",
        (q, k, v, None, None, None, lengths),
        {"is_causal": is_causal},
        dtype=q.dtype,
        shape=q.shape,
        version=_SYMBOLIC_OPSET,
    )


def _block_node(
    inputs: Sequence[Tensor], shapes: Sequence[Sequence[int]], index: int
) -> Sequence[Tensor]:
    """One stand-in node whose outputs have these shapes and the dtype of the first input."""
    return torch.onnx.ops.symbolic_multi_out(
        f"edgevlm::{STAND_IN}",
        inputs,
        {"index": index},
        dtypes=[inputs[0].dtype] * len(shapes),
        shapes=shapes,
        version=1,
    )
