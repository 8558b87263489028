"""Does an engine compute what the checkpoint says? Golden prompts through it and the reference.

Both networks are compared on the same inputs: the vision tower on an image's patches, the language
model on prompts assembled from the *reference's* image features, whole, pruned and in two chunks,
and for 32 decode steps over the reference's own greedy tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..core import PipelineIO
from ..core.manifest import KINDS
from ..core.manifest_file import read_manifest, write_manifest
from ..models import Checkpoint, ModelConfig
from ..pruners import VisualPrunerConfig, create_visual_pruner
from .embeddings import assemble, embed_tokens
from .engines import DecodeBatch, LLMEngine, VisionEngine, open_engines
from .golden_prompts import golden_requests
from .parity_figures import Figures, compare
from .processor import Processor
from .prompt import PreparedPrompt
from .reference import Reference, open_reference, recorded_peak
from .vision import VisionRunner, VisualFeatures

STEPS = 32
_PRUNED = VisualPrunerConfig(enabled=True, algorithm="dart", reduction_ratio=0.5)


@runtime_checkable
class ChunkedPrefill(Protocol):
    """An engine that can take a prompt in pieces."""

    def prefill_chunk(self, slot: int, io: PipelineIO, start: int) -> Tensor:
        """Run one piece whose first ``start`` tokens are in ``slot``; fp32 logits ``[V]``."""


@dataclass(frozen=True)
class ParityReport:
    """The figures of each part, by ``"llm"`` and ``"visual"``, and what is wrong with them."""

    figures: dict[str, dict[str, float]]
    problems: tuple[str, ...]


def verify_engine(
    engine_dir: Path,
    checkpoint_dir: Path | None = None,
    device: str | None = None,
    *,
    accept: bool = False,
) -> ParityReport:
    """Compare ``engine_dir/llm`` and ``engine_dir/visual`` with the reference.

    The figures are written into both manifests, whether good or bad.

    Args:
        accept: also note there that a failing engine may be used nevertheless.

    Raises:
        EngineError, CheckpointError, UsageError: the engine cannot be opened.
    """
    llm_dir, visual_dir = engine_dir / "llm", engine_dir / "visual"
    opened = open_engines(llm_dir, visual_dir, checkpoint_dir, device, allow_unverified=True)
    assert opened.vision is not None
    manifest = read_manifest(llm_dir)
    checkpoint = Checkpoint(manifest.checkpoint_dir(llm_dir, checkpoint_dir))
    limits = opened.llm.limits
    most = opened.vision.limits.max_image_tokens
    processor = Processor.from_directories(llm_dir, visual_dir, most)
    requests = list(golden_requests(limits))[: limits.max_batch]
    prompts = [processor.prepare(request) for request in requests]
    reference = open_reference(checkpoint, limits, len(prompts))
    figures = {kind: Figures(manifest.dtype) for kind in KINDS}
    with recorded_peak() as peak:
        features = [
            _compare_vision(opened.vision, reference, opened.config, prompt, figures["visual"])
            for prompt in prompts
        ]
    figures["visual"].reference_peak = peak.value
    ios = [
        assemble(reference.llm, prompt, shown, opened.config.num_deepstack)
        for prompt, shown in zip(prompts, features, strict=True)
    ]
    with recorded_peak() as peak:
        _compare_llm(opened.llm, reference.llm, ios, figures["llm"])
    figures["llm"].reference_peak = peak.value
    for directory in (llm_dir, visual_dir):
        old = read_manifest(directory)
        parity = {**figures[old.kind].as_dict(), "accepted": float(accept)}
        write_manifest(replace(old, parity=parity), directory)
    return ParityReport(
        {kind: part.as_dict() for kind, part in figures.items()},
        tuple(problem for part in figures.values() for problem in part.problems()),
    )


def _compare_vision(
    engine: VisionEngine,
    reference: Reference,
    config: ModelConfig,
    prompt: PreparedPrompt,
    figures: Figures,
) -> list[VisualFeatures]:
    """Returns the reference's features."""
    if not prompt.media:
        return []
    patches = engine.limits.max_image_tokens * config.vision.merge_unit
    expected = VisionRunner(reference.vision, config.vision, patches).encode(prompt.media)
    found = VisionRunner(engine, config.vision, patches).encode(prompt.media)
    for a, b in zip(found, expected, strict=True):
        compare(figures, "features", a.embeds, b.embeds)
        compare(figures, "deepstack", a.planes, b.planes)
    return expected


def _compare_llm(
    engine: LLMEngine, reference: LLMEngine, ios: list[PipelineIO], figures: Figures
) -> None:
    # The last slot, and then moved: every address but the first is tried as well.
    far = engine.limits.max_batch - 1
    logits: list[Tensor] = []
    for slot, io in enumerate(ios):
        for name, variant in _variants(io):
            wanted = reference.prefill(slot, variant)
            compare(figures, name, engine.prefill(far, _on(engine, variant)), wanted)
        logits.append(reference.prefill(slot, io))
        if isinstance(engine, ChunkedPrefill):
            found = _in_chunks(engine, engine, far, io)
            compare(figures, "chunked_prefill", found, logits[-1])
        engine.prefill(far, _on(engine, io))
        if far != slot:
            engine.move_slot(far, slot, len(io))
    _compare_decode(engine, reference, ios, torch.stack(logits), figures)


def _variants(io: PipelineIO) -> Iterator[tuple[str, PipelineIO]]:
    yield "prefill", io
    if io.spans:
        pruned, report = create_visual_pruner(_PRUNED).prune(io)
        if report.skipped is None:
            yield "pruned_prefill", pruned


def _in_chunks(engine: LLMEngine, chunked: ChunkedPrefill, slot: int, io: PipelineIO) -> Tensor:
    middle = max(1, len(io) // 2)
    chunked.prefill_chunk(slot, _on(engine, _rows(io, 0, middle)), 0)
    return chunked.prefill_chunk(slot, _on(engine, _rows(io, middle, len(io))), middle)


def _rows(io: PipelineIO, begin: int, end: int) -> PipelineIO:
    """Rows ``begin..end-1``. Spans are for pruners; an engine does not look at them."""
    return PipelineIO(
        token_ids=io.token_ids[begin:end],
        embeds=io.embeds[begin:end],
        deepstack=io.deepstack[:, begin:end],
        positions=io.positions[:, begin:end],
        spans=(),
        next_position=io.next_position,
    )


def _compare_decode(
    engine: LLMEngine,
    reference: LLMEngine,
    ios: list[PipelineIO],
    logits: Tensor,  # [n,V] of the prefill
    figures: Figures,
) -> None:
    lengths = [len(io) for io in ios]
    positions = torch.tensor([io.next_position for io in ios])  # [n]
    steps = min(STEPS, engine.limits.max_kv_len - max(lengths))
    for step in range(steps):
        tokens = logits.argmax(-1)  # [n]
        filled = tuple(length + step for length in lengths)
        found, logits = (
            each.decode(
                DecodeBatch(embed_tokens(each, tokens), (positions + step).to(each.device), filled)
            )
            for each in (engine, reference)
        )
        compare(figures, "decode", found, logits)
        figures.count_agreement(found, logits)


def _on(engine: LLMEngine, io: PipelineIO) -> PipelineIO:
    """The prompt in the engine's dtype on its device."""
    return replace(
        io,
        token_ids=io.token_ids.to(engine.device),
        embeds=io.embeds.to(engine.device, engine.dtype),
        deepstack=io.deepstack.to(engine.device, engine.dtype),
        positions=io.positions.to(engine.device),
        importance=None,
    )
