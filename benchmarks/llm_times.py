"""How long prefill, with and without pruning, and decoding take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from ..core import PipelineIO
from ..pruners import VisualPrunerConfig, create_visual_pruner
from ..runtime.embeddings import embed_tokens
from ..runtime.engines import DecodeBatch
from ..runtime.engines.torch_llm import TorchLLMEngine
from ..runtime.request import SamplingParams
from ..runtime.sampler import TokenSampler, sample
from .llm_shapes import LLMShape
from .prompts import PromptShape
from .timing import Timer

Prefill = Callable[[PipelineIO], object]
RATIOS = (None, 0.25, 0.5)
_PROMPTS = 2
_CHAIN = 20  # decode steps in a row


def measure_prefill(
    name: str, prefill: Prefill, shape: LLMShape, dtype: torch.dtype, timer: Timer
) -> Iterator[dict[str, Any]]:
    """Whole prompt and pruned ones, selection and compaction included."""
    prompt = PromptShape(1, shape.visual_tokens, shape.config.hidden_size)
    prompts = [prompt.make(seed, dtype, timer.device, ties=False) for seed in range(_PROMPTS)]
    full = None
    for ratio in RATIOS:
        prune = _pruning(ratio)
        rows = len(prune(prompts[0]))
        with torch.inference_mode():
            elapsed = timer.eager([_call(prefill, prune, io) for io in prompts])
        full = full or elapsed
        what = f"prefill, {name}" + (f", dart r={ratio}" if ratio else "")
        yield {"what": what, "tokens": rows, "ms": elapsed, "speed_up": full / elapsed}


def measure_decode(
    name: str, engine: TorchLLMEngine, shape: LLMShape, timer: Timer, bandwidth: float
) -> Iterator[dict[str, Any]]:
    """One step at each batch size: on the device in a row, and from token to token on the host.

    Args:
        bandwidth: of a copy, GB/s; what reading all weights and the used cache once would take at
            that rate is the bound.
    """
    config = shape.config
    prompt = PromptShape(1, shape.context - 24, config.hidden_size)
    io = prompt.make(0, engine.dtype, engine.device, ties=False)
    for slot in range(max(shape.batches)):
        engine.prefill(slot, io)
    weights = _weight_bytes(shape, engine.dtype)
    for count in shape.batches:
        batch = _batch(engine, [1] * count, shape.context)
        step = timer.eager([_chain(engine, batch)]) / _CHAIN
        cache = count * shape.context * _cache_bytes(shape, engine.dtype)
        bound = (weights + cache) / bandwidth / 1e6
        whole = _token_to_token(engine, count, shape.context, timer)
        yield {
            "what": f"decode, {name}, batch {count}",
            "tokens": shape.context,
            "ms": step,
            "of_bandwidth": bound / step,
            "of_weights_bound": weights / bandwidth / 1e6 / step,
            "with_sampling_ms": whole,
            "tokens_per_s": count / whole * 1e3,
        }


def _pruning(ratio: float | None) -> Callable[[PipelineIO], PipelineIO]:
    if ratio is None:
        return lambda io: io
    config = VisualPrunerConfig(True, "dart", ratio, min_visual_tokens=0)
    pruner = create_visual_pruner(config)
    return lambda io: pruner.prune(io)[0]


def _call(
    prefill: Prefill, prune: Callable[[PipelineIO], PipelineIO], io: PipelineIO
) -> Callable[[], object]:
    return lambda: prefill(prune(io))


def _chain(engine: TorchLLMEngine, batch: DecodeBatch) -> Callable[[], object]:
    def run() -> None:
        for _ in range(_CHAIN):
            engine.decode(batch)

    return run


def _batch(engine: TorchLLMEngine, tokens: list[int], length: int) -> DecodeBatch:
    return DecodeBatch(
        embeds=embed_tokens(engine, torch.tensor(tokens)),
        positions=torch.full((len(tokens),), length, device=engine.device),
        lengths=(length,) * len(tokens),
    )


def _token_to_token(engine: TorchLLMEngine, count: int, length: int, timer: Timer) -> float:
    """Median ms of a step as a scheduler makes it: embed, decode, sample, read the tokens."""
    forbidden = torch.tensor([0], device=engine.device)
    samplers = [TokenSampler(SamplingParams(temperature=0.0)) for _ in range(count)]
    tokens = [1] * count
    times = []
    timer.synchronize()
    for _ in range(max(2, timer.repeats)):
        begin = perf_counter()
        logits: Tensor = engine.decode(_batch(engine, tokens, length))
        tokens = [token or 0 for token in sample(logits, samplers, forbidden)]
        times.append((perf_counter() - begin) * 1e3)
    return median(times)


def _weight_bytes(shape: LLMShape, dtype: torch.dtype) -> int:
    """Of all matrices, which a step reads once."""
    config = shape.config
    heads = config.num_heads + config.num_kv_heads
    layer = config.hidden_size * (2 * heads * config.head_dim + 3 * config.intermediate_size)
    head = config.vocab_size * config.hidden_size
    return (config.num_layers * layer + head) * dtype.itemsize


def _cache_bytes(shape: LLMShape, dtype: torch.dtype) -> int:
    """Of one token."""
    config = shape.config
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize
