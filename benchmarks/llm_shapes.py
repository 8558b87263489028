"""Language models of published shapes with random weights, made where they are used."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import EngineLimits
from ..models import MoeConfig, TextConfig, TextModel
from ..runtime.engines.torch_llm import TorchLLMEngine


@dataclass(frozen=True)
class LLMShape:
    """A network and what it is measured with."""

    config: TextConfig
    visual_tokens: int  # of the prompt to prefill
    context: int  # tokens in each slot when decoding
    batches: tuple[int, ...]  # to decode

    @property
    def limits(self) -> EngineLimits:
        longest = max(self.visual_tokens + 64, self.context)
        return EngineLimits(longest, self.context + 64 + longest, max(self.batches))


def _config(
    hidden: int,
    intermediate: int,
    layers: int,
    heads: int,
    *,
    kv_heads: int = 8,
    tied: bool = False,
    moe: MoeConfig | None = None,
) -> TextConfig:
    return TextConfig(
        vocab_size=151936,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        rms_norm_eps=1e-6,
        rope_theta=5e6,
        mrope_section=(24, 20, 20),
        max_position_embeddings=262144,
        tie_word_embeddings=tied,
        moe=moe,
    )


_TINY = TextConfig(100, 64, 96, 3, 4, 2, 16, 1e-6, 1e4, (4, 2, 2), 4096, True)

MOE_30B = _config(2048, 6144, 48, 32, kv_heads=4, moe=MoeConfig(128, 8, 768))

# 1,995 tokens with the text around the image.
SHAPES = {
    "4b": LLMShape(_config(2560, 9728, 36, 32, tied=True), 1971, 2000, (1, 4, 8)),
    "32b": LLMShape(_config(5120, 25600, 64, 64), 1971, 2000, (1, 4, 8)),
    "tiny": LLMShape(_TINY, 40, 30, (1, 3)),
}


class RandomState(Mapping[str, Tensor]):
    """Weights by the names of :class:`~edgevlm.models.TextModel`, made when asked for.

    The same name gives the same numbers each time. Only ``lm_head.weight`` is kept, so that it can
    be recognised as the embedding table.
    """

    def __init__(self, config: TextConfig, dtype: torch.dtype, device: torch.device) -> None:
        with torch.device("meta"):
            network = TextModel(config)
        self._shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
        self._dtype, self._device = dtype, device
        self._head = self._make("lm_head.weight")

    def __getitem__(self, name: str) -> Tensor:
        return self._head if name == "lm_head.weight" else self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def _make(self, name: str) -> Tensor:
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
        shape = self._shapes[name]
        values = torch.empty(shape, dtype=self._dtype, device=self._device)
        # Gains near 1; matrices that keep the size of what they multiply, so that no layer is idle.
        mean, deviation = (1.0, 0.1) if len(shape) == 1 else (0.0, shape[1] ** -0.5)
        return values.normal_(mean, deviation, generator=generator)


def make_engine(
    config: TextConfig,
    limits: EngineLimits,
    dtype: torch.dtype,
    device: torch.device,
    *,
    fused: bool,
    max_graphs: int = 32,
    weights: torch.dtype | None = None,
) -> TorchLLMEngine:
    """An engine with random weights, rounded to ``weights`` before ``dtype``."""
    state = RandomState(config, weights or dtype, device)
    table = state["lm_head.weight"]
    return TorchLLMEngine(
        config, limits, state, table, dtype, device, fused=fused, max_graphs=max_graphs
    )
