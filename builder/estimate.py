"""How much memory an engine will take, counted from shapes alone: no GPU, nothing built."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from ..core.capabilities import TENSORRT, TENSORRT_RTX
from ..core.limits import EngineLimits
from ..core.manifest import Profile, TensorSpec
from ..models import ModelConfig, TextModel, VisionTower
from ..models.checkpoint import Checkpoint
from .contract import Contract, text_contract, vision_contract
from .tensorrt_profiles import input_shape

_HOST_BASE = 840 * 2**20  # Python, torch, onnx and the TensorRT library, before any weight
_DEVICE_BASE = 600 * 2**20  # a CUDA context, kernels, workspaces of libraries


@dataclass(frozen=True)
class Estimate:
    """Bytes, by use; each figure is of both networks together."""

    weights: int  # of the engines
    embeddings: int  # the token table, which the runtime keeps beside them
    kv_cache: int
    activations: int
    buffers: int  # inputs and outputs at their largest
    device_base: int
    build_peak: int  # resident host memory of `edgevlm build`
    build_mapped: int  # the part of it that the kernel can take back: mapped checkpoint files
    disk: int  # the engine directory

    @property
    def running(self) -> int:
        """All that running takes, on the device that holds the engine."""
        parts = (self.weights, self.embeddings, self.kv_cache, self.activations, self.buffers)
        return sum(parts) + self.device_base


def estimate(checkpoint: Checkpoint, target: str, dtype: str, limits: EngineLimits) -> Estimate:
    """Count what an engine of ``checkpoint`` for ``target`` will take.

    Running: the weights in the engine's dtype; the KV caches in full, as they are allocated at
    start; the token embeddings; inputs and outputs of the largest profile; and activations. With
    fused attention those are row buffers: at the widest point, the feed-forward network, two of
    its width and four of the model's are alive, for every row of the larger profile. With experts,
    the width is that of a row's experts and their results side by side.

    Building with TensorRT, as measured on TensorRT for RTX 1.7.1 (``docs/results``). Resident
    memory peaks while the language model's plan, complete in memory, is written out:

    * a base of 0.88 GB;
    * the weights of *both* networks as the checkpoint has them, mapped. These pages are the page
      cache's: where memory is short, the kernel takes them back;
    * the plan, as large as the language model's weights in the engine's dtype;
    * the weights of the decoder layers once more: TensorRT joins and re-orders them for its
      kernels, all but those of the output head;
    * where the engine's dtype is not the checkpoint's, the language model's weights once more:
      they are converted while the network is optimised.

    The other targets copy no weights when they build.
    """
    config = checkpoint.config
    own, wanted = checkpoint.embedding_table().dtype, getattr(torch, dtype)
    with torch.device("meta"):
        model, vision = TextModel(config.text), _count(VisionTower(config.vision))
    text, layers = _count(model), _count(model.layers)
    tensorrt = target in (TENSORRT, TENSORRT_RTX)
    mapped = (text + vision) * own.itemsize if tensorrt else 0
    copies = text * (1 if own is wanted else 2) + layers if tensorrt else 0
    text_io = text_contract(config, limits, dtype)
    vision_io = vision_contract(config, limits, dtype, importance=True)
    return Estimate(
        weights=(text + vision) * wanted.itemsize,
        embeddings=config.text.vocab_size * config.text.hidden_size * wanted.itemsize,
        kv_cache=_kv_bytes(config, limits, wanted.itemsize),
        activations=_activations(config, limits, wanted.itemsize),
        buffers=_buffers(text_io) + _buffers(vision_io),
        device_base=_DEVICE_BASE if tensorrt else 0,
        build_peak=_HOST_BASE + mapped + copies * wanted.itemsize,
        build_mapped=mapped,
        disk=(text + vision) * wanted.itemsize if tensorrt else 0,
    )


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _kv_bytes(config: ModelConfig, limits: EngineLimits, item: int) -> int:
    text = config.text
    row = 2 * text.num_layers * text.num_kv_heads * text.head_dim * item  # keys and values
    return row * limits.max_kv_len * limits.max_batch


def _activations(config: ModelConfig, limits: EngineLimits, item: int) -> int:
    text, vision = config.text, config.vision
    rows = max(limits.max_input_len, limits.max_batch)
    patches = limits.max_image_tokens * limits.max_images * vision.merge_unit
    inner = text.intermediate_size
    if text.moe is not None:  # a row's experts side by side, and what each of them gives
        experts = text.moe.intermediate_size + text.hidden_size
        inner = max(inner if text.moe.dense_layers else 0, text.moe.top_k * experts)
    return item * (
        rows * (2 * inner + 4 * text.hidden_size)
        + patches * (2 * vision.intermediate_size + 4 * vision.hidden_size)
    )


def _buffers(contract: Contract) -> int:
    """Inputs and outputs at the largest point of the largest profile, without the caches."""
    specs = [s for s in (*contract.inputs, *contract.outputs) if "_cache_" not in s.name]
    return max(sum(_largest(spec, profile) for spec in specs) for profile in contract.profiles)


def _largest(spec: TensorSpec, profile: Profile) -> int:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    return math.prod(input_shape(spec, profile, "max")) * dtype.itemsize
