"""Language models in torch over the random model's weights, and prompts for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgevlm.core import EngineLimits, PipelineIO, VisualSpan
from edgevlm.runtime.engines import DecodeBatch
from edgevlm.runtime.engines.torch_llm import TorchLLMEngine
from tests.models.random_model import RandomModel

LIMITS = EngineLimits(max_input_len=70, max_kv_len=90, max_batch=3)


def make_engine(
    model: RandomModel, *, limits: EngineLimits = LIMITS, layers: int = 4, **choices: Any
) -> TorchLLMEngine:
    """An engine of the first ``layers`` layers in fp32 on the CPU."""
    state = model.text_state()
    gone = tuple(f"layers.{layer}." for layer in range(layers, 4))
    return TorchLLMEngine(
        replace(model.config.text, num_layers=layers),
        limits,
        {name: tensor for name, tensor in state.items() if not name.startswith(gone)},
        model.embedding_table(),
        torch.float32,
        torch.device("cpu"),
        **choices,
    )


def make_prompt(length: int, *, seed: int = 0, image: tuple[int, int] | None = None) -> PipelineIO:
    """Random embeddings; DeepStack planes where ``image = (start, end)`` is."""
    generator = torch.Generator().manual_seed(seed)
    planes = torch.zeros(3, length, 64)
    spans = ()
    if image is not None:
        start, end = image
        planes[:, start:end] = torch.randn(3, end - start, 64, generator=generator)
        spans = (VisualSpan(start, end, 0),)
    positions = torch.randint(0, 200, (3, length), generator=generator)
    return PipelineIO(
        token_ids=torch.arange(length),
        embeds=torch.randn(length, 64, generator=generator),
        deepstack=planes,
        positions=positions,
        spans=spans,
        next_position=int(positions.max()) + 1,
    )


def make_batch(lengths: tuple[int, ...], seed: int = 0) -> DecodeBatch:
    embeds = torch.randn(len(lengths), 64, generator=torch.Generator().manual_seed(seed))
    return DecodeBatch(embeds, torch.tensor(lengths) + 5, lengths)


def answer(engine: TorchLLMEngine, prompts: list[PipelineIO], steps: int = 3) -> list[Tensor]:
    """Logits of all prompts' prefills and of some decode steps over all of them."""
    found = [engine.prefill(slot, io) for slot, io in enumerate(prompts)]
    for step in range(steps):
        lengths = tuple(len(io) + step for io in prompts)
        found.append(engine.decode(make_batch(lengths, seed=step)))
    return found
