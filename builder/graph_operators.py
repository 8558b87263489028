"""The networks' leaf operators as ONNX nodes: what the exported graph computes with.

Each call below traces to one node of the standard domain: RotaryEmbedding-23, TensorScatter-24,
Attention-24.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from .layer_tensors import LayerTensors
from .routing_operators import RoutingOperators

STAND_IN = "BlockStandIn"
_SYMBOLIC_OPSET = 24


class TextGraphOperators(RoutingOperators):
    """Cached causal attention; the experts' part is :class:`RoutingOperators`'.

    Args:
        tensors: the graph's inputs by name.
        layers: what each layer takes and gives, where stand-ins take the place of layers.

    Attributes:
        results: by name, what the layers give besides their rows.
    """

    def __init__(self, tensors: Mapping[str, Tensor], layers: Sequence[LayerTensors] = ()) -> None:
        super().__init__(tensors)
        self._layers = layers

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return torch.onnx.ops.rotary_embedding(x, cos, sin)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        k_cache = self._write(f"k_cache_{layer}", k)
        v_cache = self._write(f"v_cache_{layer}", v)
        # Causal with lengths is aligned bottom-right: the last row sees kv_lengths slots.
        return _attention(q, k_cache, v_cache, self.tensors["kv_lengths"], is_causal=1)

    def stand_in(self, x: Tensor, cos: Tensor, sin: Tensor, index: int) -> Tensor:
        names = self._layers[index]
        inputs = [self.tensors[name] for name in names.inputs]
        like = [x, inputs[0], inputs[1]]  # the rows and both caches
        shapes = [*(tensor.shape for tensor in like), *(shape for _, shape in names.reports)]
        dtypes = [*(tensor.dtype for tensor in like), *(dtype for dtype, _ in names.reports)]
        x, *outputs = _block_node((x, cos, sin, *inputs), dtypes, shapes, index)
        self.results.update(zip(names.outputs, outputs, strict=True))
        return x

    def _write(self, name: str, rows: Tensor) -> Tensor:
        cache = self.tensors[name]
        written = torch.onnx.ops.symbolic(
            "TensorScatter",
            (cache, rows, self.tensors["write_indices"]),
            {"axis": -2},
            dtype=cache.dtype,
            shape=cache.shape,
            version=_SYMBOLIC_OPSET,
        )
        self.results[f"{name}_out"] = written
        return written


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
        inputs = (x, cos, sin, self.patch_lengths)
        x, *watched = _block_node(inputs, [x.dtype] * len(shapes), shapes, index)
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
    inputs: Sequence[Tensor],
    dtypes: Sequence[torch.dtype],
    shapes: Sequence[Sequence[int]],
    index: int,
) -> Sequence[Tensor]:
    """One stand-in node, whose outputs have these types and shapes."""
    return torch.onnx.ops.symbolic_multi_out(
        f"edgevlm::{STAND_IN}",
        inputs,
        {"index": index},
        dtypes=dtypes,
        shapes=shapes,
        version=1,
    )
