"""Token ids and visual features to the assembled prompt that a pruner and an engine take."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core import PipelineIO, RequestError
from .engines import LLMEngine
from .prompt import PreparedPrompt
from .vision import VisualFeatures


def embed_tokens(engine: LLMEngine, token_ids: Tensor) -> Tensor:
    """Rows ``[n,H]`` of the embedding table for ``token_ids [n]``, in the engine's dtype."""
    table = engine.embedding_table
    return table[token_ids.to(table.device)].to(engine.device, engine.dtype)


def assemble(
    engine: LLMEngine, prompt: PreparedPrompt, features: Sequence[VisualFeatures], planes: int
) -> PipelineIO:
    """Put the visual features of span ``i`` (``features[i]``) into the prompt's rows.

    The prompt has importance if all features have; text then has 0.

    Args:
        planes: number of DeepStack planes of the model.

    Raises:
        RequestError: a span and its features differ in length.
    """
    embeds = embed_tokens(engine, prompt.token_ids)  # [T,H]
    deepstack = embeds.new_zeros((planes, *embeds.shape))  # [P,T,H]
    for span, feature in zip(prompt.spans, features, strict=True):
        found = feature.embeds.shape[0]
        if found != len(span):
            raise RequestError(
                f"the prompt holds {len(span)} placeholders for visual item at token {span.start},"
                f" the vision engine returned {found} tokens; was the engine built from another"
                " checkpoint than the processor's configuration?"
            )
        embeds[span.start : span.end] = feature.embeds.to(embeds)
        deepstack[:, span.start : span.end] = feature.planes.to(embeds)
    return PipelineIO(
        token_ids=prompt.token_ids.to(engine.device),
        embeds=embeds,
        deepstack=deepstack,
        positions=prompt.positions.to(engine.device),
        spans=prompt.spans,
        next_position=prompt.next_position,
        importance=_importance(prompt, features, engine.device),
    )


def _importance(
    prompt: PreparedPrompt, features: Sequence[VisualFeatures], device: torch.device
) -> Tensor | None:
    scores = [feature.importance for feature in features if feature.importance is not None]
    if not scores or len(scores) < len(features):
        return None
    importance = torch.zeros(len(prompt.token_ids), device=device)  # [T]
    for span, score in zip(prompt.spans, scores, strict=True):
        importance[span.start : span.end] = score
    return importance
