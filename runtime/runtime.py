"""The runtime: requests in, text out. One request's way through the files, in order:

``request`` -> ``processor`` (media, prompt) -> ``vision`` -> ``embeddings`` (PipelineIO) ->
``pruners`` -> ``engines`` (prefill, decode) -> ``sampler`` -> ``detokenizer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..core import PipelineIO, RequestError, UsageError
from ..models import ModelConfig
from ..pruners import PruneReport, VisualPrunerConfig, create_visual_pruner
from .embeddings import assemble
from .engines import LLMEngine, VisionEngine, open_engines
from .processor import Processor
from .request import ChatRequest
from .response import Response
from .scheduler import DecodeTotals, Event, Scheduler
from .sequence import Sequence
from .timing import RequestTiming
from .vision import VisionRunner


class Runtime:
    """Answers chat requests with one pair of engines. Not thread-safe: one thread uses it.

    Args:
        llm, vision: the engines; ``vision`` may be ``None`` for text-only use.
        processor: media and prompt preparation for the same checkpoint.
        max_batch: slots to use at most; the engine's maximum if ``None`` or larger.
    """

    def __init__(
        self,
        llm: LLMEngine,
        vision: VisionEngine | None,
        processor: Processor,
        config: ModelConfig,
        *,
        max_batch: int | None = None,
    ) -> None:
        limits = llm.limits
        self.max_batch = min(max_batch or limits.max_batch, limits.max_batch)
        self._llm = llm
        self._processor = processor
        self._config = config
        self._vision = None
        if vision is not None:
            patches = vision.limits.max_image_tokens * config.vision.merge_unit
            self._vision = VisionRunner(vision, config.vision, patches)
        self._pruner_config = VisualPrunerConfig()
        self._next_index = 0
        self._scheduler = Scheduler(llm, self._admit, processor.forbidden_ids, self.max_batch)

    @classmethod
    def open(
        cls,
        engine_dir: Path | str,
        multimodal_engine_dir: Path | str | None = None,
        *,
        checkpoint_dir: Path | str | None = None,
        device: str | None = None,
        max_batch: int | None = None,
    ) -> Runtime:
        """Open engine directories written by ``edgevlm build``.

        Args:
            checkpoint_dir: the checkpoint, if it is no longer where the manifest says.
            device: torch device of the torch backend; CUDA if there is one, else the CPU.

        Raises:
            EngineError, CheckpointError, UsageError: one line naming the file and the remedy.
        """
        visual = Path(multimodal_engine_dir) if multimodal_engine_dir else None
        checkpoint = Path(checkpoint_dir) if checkpoint_dir else None
        opened = open_engines(Path(engine_dir), visual, checkpoint, device)
        most = opened.vision.limits.max_image_tokens if opened.vision else None
        processor = Processor.from_directories(Path(engine_dir), visual, most)
        return cls(opened.llm, opened.vision, processor, opened.config, max_batch=max_batch)

    def set_visual_pruner_config(self, config: VisualPrunerConfig) -> None:
        """Set the default for requests that carry no pruning configuration of their own.

        Raises:
            UsageError: the algorithm or one of its options is unknown or out of range.
        """
        create_visual_pruner(config)
        self._pruner_config = config

    @property
    def decode_totals(self) -> DecodeTotals:
        """Decode steps since this runtime was opened."""
        return self._scheduler.totals

    @property
    def idle(self) -> bool:
        """Whether no request waits or runs."""
        return self._scheduler.idle

    def submit(self, request: ChatRequest) -> int:
        """Queue a request; returns the index its events will carry."""
        index = self._next_index
        self._next_index += 1
        self._scheduler.submit(index, request)
        return index

    def cancel(self, index: int) -> Response | None:
        """Stop a request; ``None`` if it has ended already."""
        return self._scheduler.cancel(index)

    def step(self) -> list[Event]:
        """Admit at most one waiting request and decode one token of every active one."""
        return self._scheduler.step()

    def generate(self, requests: Iterable[ChatRequest]) -> list[Response]:
        """Answer requests together; responses come in the order of the requests.

        Raises:
            UsageError: earlier requests are still running, whose events would be lost.
        """
        self._require_idle("generate")
        wanted = [self.submit(request) for request in requests]
        done: dict[int, Response] = {}
        while not self.idle:
            for event in self.step():
                if isinstance(event, Response):
                    done[event.index] = event
        return [done[index] for index in wanted]

    def stream(self, request: ChatRequest) -> Iterator[Event]:
        """Answer one request piece by piece; the last event is its :class:`Response`.

        Closing the iterator early cancels the request.

        Raises:
            UsageError: earlier requests are still running, whose events would be lost.
        """
        self._require_idle("stream")
        index = self.submit(request)
        finished = False
        try:
            while not finished:
                for event in self.step():
                    if isinstance(event, Response) and event.index == index:
                        finished = True
                    if event.index == index:
                        yield event
        finally:
            if not finished:
                self.cancel(index)

    def _require_idle(self, method: str) -> None:
        if not self.idle:
            raise UsageError(
                f"{method}() needs an idle runtime; with several requests use submit() and step()"
            )

    def _admit(
        self, slot: int, index: int, request: ChatRequest, timing: RequestTiming
    ) -> tuple[Sequence, Tensor]:
        device = self._llm.device
        try:
            pruner = create_visual_pruner(
                VisualPrunerConfig.from_mapping(request.visual_pruning or {}, self._pruner_config)
            )
        except UsageError as error:
            raise RequestError(f"visual_pruning: {error}") from None
        with timing.stage("media", device):
            prompt = self._processor.prepare(request)
        timing.image_decode_ms = prompt.decode_ms
        with timing.stage("vision", device):
            if prompt.media and self._vision is None:
                raise RequestError(
                    "the request has images, but no visual engine was opened; pass its directory"
                    " with --multimodalEngineDir"
                )
            features = self._vision.encode(prompt.media) if self._vision else []
        io = assemble(self._llm, prompt, features, self._config.num_deepstack)
        with timing.stage("prune", device):
            io, report = pruner.prune(io)
        budget = self._budget(io, report, request)
        with timing.stage("prefill", device):
            try:
                logits = self._llm.prefill(slot, io)
            except torch.OutOfMemoryError:
                raise RequestError(
                    f"out of device memory while prefilling {len(io)} tokens; use smaller images,"
                    " a higher reduction_ratio or an engine with a smaller max_kv_len x max_batch"
                ) from None
        sequence = Sequence(
            index=index,
            request=request,
            prompt=prompt,
            report=report,
            length=len(io),
            position=io.next_position,
            budget=budget,
            timing=timing,
            decode=self._processor.decode,
            eos_ids=self._processor.eos_ids,
        )
        return sequence, logits

    def _budget(self, io: PipelineIO, report: PruneReport, request: ChatRequest) -> int:
        """Tokens the request may generate, after checking its *pruned* length."""
        limits = self._llm.limits
        if len(io) > limits.max_input_len:
            pruned = (
                f"{len(io)} after pruning"
                if report.skipped is None
                else f"not pruned: {report.skipped}"
            )
            raise RequestError(
                f"the prompt has {report.prompt_tokens_before} tokens ({pruned}), the engine takes"
                f" {limits.max_input_len}; use fewer or smaller images, a higher reduction_ratio,"
                " or rebuild with a larger --max-input-len"
            )
        # The last generated token is never fed back, so it needs no KV slot.
        return min(request.sampling.max_tokens, limits.max_kv_len - len(io) + 1)
