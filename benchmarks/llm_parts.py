"""Where the time goes: each step of a layer alone, and matrix products with few rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..core import EngineLimits
from ..models import TextConfig
from ..runtime.engines.torch_fused import FusedNetwork
from ..runtime.engines.torch_steps import Rows, attend_causally, split_heads
from .llm_shapes import RandomState
from .timing import Call, Timer

_LAYERS = 8  # whose weights take turns, so that no cache holds the next ones
_FEW = (1, 4, 8)


def make_network(config: TextConfig, timer: Timer, dtype: torch.dtype, rows: int) -> FusedNetwork:
    """A few layers; ``config.num_layers`` of them."""
    state = RandomState(config, dtype, timer.device)
    limits = EngineLimits(rows, rows, max(_FEW))
    return FusedNetwork(config, limits, state, dtype, timer.device, rows)


def measure_prefill_parts(
    network: FusedNetwork, timer: Timer, rows: int
) -> Iterator[dict[str, Any]]:
    """Each step of a layer over ``rows`` rows, one CUDA graph replay per call."""
    weights, steps, caches = network.weights, network.steps, network.caches
    hidden, width = weights.layers[0].o.shape[0], caches[0].k.shape[3]
    device, dtype = timer.device, weights.norm.dtype
    x = torch.randn(rows, hidden, device=device).to(dtype)
    angles = torch.randn(rows, width // 2, device=device)
    row = torch.arange(rows, device=device)
    places = Rows(angles.cos().to(dtype), angles.sin().to(dtype), torch.zeros_like(row), row)
    qkv = steps.norm_linear(x, weights.layers[0].input_norm, weights.layers[0].qkv)
    mixed = attend_causally(qkv, caches[0])
    inner = steps.norm_gated(x, weights.layers[0].post_norm, weights.layers[0].feed_forward.gate_up)
    parts: dict[str, list[Call]] = {}
    for layer, cache in zip(weights.layers, caches, strict=True):
        calls: dict[str, Call] = {
            "norm": partial(steps.norm, x, layer.input_norm),
            "norm, qkv": partial(steps.norm_linear, x, layer.input_norm, layer.qkv),
            "rotate and store": partial(steps.rotate_and_store, qkv.clone(), layer, places, cache),
            "attention": partial(attend_causally, qkv, cache),
            "attention, flash": partial(_attend, SDPBackend.FLASH_ATTENTION, qkv, cache),
            "attention, cudnn": partial(_attend, SDPBackend.CUDNN_ATTENTION, qkv, cache),
            "o, added": partial(steps.add_linear, x.clone(), mixed, layer.o),
            "norm, gate, up, swiglu": partial(
                steps.norm_gated, x, layer.post_norm, layer.feed_forward.gate_up
            ),
            "gate, up alone": partial(F.linear, x, layer.feed_forward.gate_up),
            "down, added": partial(steps.add_linear, x.clone(), inner, layer.feed_forward.down),
        }
        for name, call in calls.items():
            parts.setdefault(name, []).append(call)
    for name, turns in parts.items():
        yield {"part": name, "rows": rows, "ms": _graph_or_none(timer, turns)}


def measure_matrices(network: FusedNetwork, timer: Timer) -> Iterator[dict[str, Any]]:
    """Products with few rows, ours and cuBLAS's, and what they read per second."""
    weights, steps = network.weights, network.steps
    matrices = {
        "qkv": [layer.qkv for layer in weights.layers],
        "o": [layer.o for layer in weights.layers],
        "gate, up": [layer.feed_forward.gate_up for layer in weights.layers],
        "down": [layer.feed_forward.down for layer in weights.layers],
        "head": [weights.lm_head],
    }
    for count in _FEW:
        for name, turns in matrices.items():
            x = torch.randn(count, turns[0].shape[1], device=timer.device).to(weights.norm.dtype)
            y = x.new_zeros(count, turns[0].shape[0])
            ours = _graph_or_none(timer, [partial(steps.add_linear, y, x, w) for w in turns])
            theirs = _graph_or_none(timer, [partial(F.linear, x, w) for w in turns])
            size = turns[0].numel() * turns[0].element_size() / 1e6
            yield {
                "matrix": name,
                "rows": count,
                "ms": ours,
                "gb_s": size / ours if ours else None,
                "cublas_ms": theirs,
                "cublas_gb_s": size / theirs if theirs else None,
            }


def tune_vector(network: FusedNetwork, timer: Timer) -> Iterator[dict[str, Any]]:
    """The kernel for one row with other tiles, on each matrix."""
    from ..core.launch import Kernel, blocks
    from ..runtime.engines.kernels.vector_linear import _in_chunks

    layers = network.weights.layers
    matrices = {
        "qkv": ([layer.qkv for layer in layers], True, False),
        "o": ([layer.o for layer in layers], False, False),
        "gate, up": ([layer.feed_forward.gate_up for layer in layers], True, True),
        "down": ([layer.feed_forward.down for layer in layers], False, False),
        "head": ([network.weights.lm_head], True, False),
    }
    for name, (turns, norm, gated) in matrices.items():
        size = turns[0].shape[1]
        out = turns[0].shape[0] // 2 if gated else turns[0].shape[0]
        x = torch.randn(1, size, device=timer.device).to(turns[0].dtype)
        y = x.new_empty(1, out)
        for rows, chunk, stages, warps in (
            (4, 1024, 3, 4),
            (8, 512, 3, 4),
            (4, 1024, 1, 4),
            (8, 512, 1, 4),
            (2, 1024, 1, 4),
            (1, 2048, 1, 4),
            (4, 512, 4, 2),
            (8, 1024, 3, 8),
            (16, 256, 3, 4),
        ):
            kernel = Kernel(_in_chunks, overlaps=True, num_warps=warps)
            constants = (size, out, norm, gated, False, rows, chunk, stages)

            def call(
                weight: Tensor,
                kernel: Kernel = kernel,
                grid: tuple[int, int, int] = (blocks(out, rows), 1, 1),
                constants: tuple[int | bool, ...] = constants,
                x: Tensor = x,
                y: Tensor = y,
            ) -> None:
                kernel(grid, (x, x, weight, y), (1e-6,), constants)

            elapsed = _graph_or_none(timer, [partial(call, weight) for weight in turns])
            read = turns[0].numel() * turns[0].element_size() / 1e6
            yield {
                "matrix": name,
                "rows": rows,
                "chunk": chunk,
                "stages": stages,
                "warps": warps,
                "ms": elapsed,
                "gb_s": read / elapsed if elapsed else None,
            }


def _attend(backend: SDPBackend, qkv: Tensor, cache: Any) -> Tensor:
    q, k, v = split_heads(qkv, cache)
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _graph_or_none(timer: Timer, calls: list[Call]) -> float | None:
    """Per call, all in a row in one graph; eager on a CPU; ``None`` where they cannot run."""

    def row() -> None:
        for call in calls:
            call()

    try:
        with torch.inference_mode():
            if timer.device.type == "cpu":
                return timer.eager([row]) / len(calls)
            elapsed = timer.graph([row])
            return None if elapsed is None else elapsed / len(calls)
    except RuntimeError:
        return None
