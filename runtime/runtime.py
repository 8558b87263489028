"""The runtime: requests in, text out. One request's way through the files, in order:

``request`` -> ``processor`` (media, prompt) -> ``vision`` -> ``embeddings`` (PipelineIO) ->
``pruners`` -> ``engines`` (prefill, decode) -> ``sampler`` -> ``detokenizer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torch import Tensor

from ..core import EngineLimits, PipelineIO, RequestError, UsageError
from ..models import Checkpoint, ModelConfig
from ..pruners import (
    PruneReport,
    VisualPrunerConfig,
    VisualTokenPruner,
    create_visual_pruner,
)
from . import staging
from .embeddings import assemble
from .engines import LLMEngine, VisionEngine, open_engines
from .engines.routing import ControlledExperts, RoutingControl, RoutingTotals
from .expert_routing import ExpertRoutingConfig
from .processor import Processor
from .prompt import PreparedPrompt
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
        checkpoint: the engines' own; only :meth:`set_expert_routing` needs it.
    """

    def __init__(
        self,
        llm: LLMEngine,
        vision: VisionEngine | None,
        processor: Processor,
        config: ModelConfig,
        *,
        max_batch: int | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        limits = llm.limits
        self.max_batch = min(max_batch or limits.max_batch, limits.max_batch)
        self._llm = llm
        self._processor = processor
        self._config = config
        self._checkpoint = checkpoint
        self._vision = None
        if vision is not None:
            patches = vision.limits.max_image_tokens * config.vision.merge_unit
            self._vision = VisionRunner(vision, config.vision, patches)
        self._pruner_config = VisualPrunerConfig()
        self._next_index = 0
        self._prepared: dict[int, PreparedPrompt] = {}
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
        return cls(
            opened.llm,
            opened.vision,
            processor,
            opened.config,
            max_batch=max_batch,
            checkpoint=opened.checkpoint,
        )

    def set_visual_pruner_config(self, config: VisualPrunerConfig) -> None:
        """Set the default for requests that carry no pruning configuration of their own.

        Raises:
            UsageError: the algorithm or one of its options is unknown or out of range.
        """
        create_visual_pruner(config)
        self._pruner_config = config

    def set_expert_routing(self, config: ExpertRoutingConfig) -> None:
        """Set how a mixture of experts is routed, for all requests from the next step on.

        Raises:
            UsageError: a calibration file is of another checkpoint, the model has no experts, or
                the engine was built without what is asked.
        """
        if self._checkpoint is None:
            raise UsageError("expert routing needs a runtime that knows its checkpoint")
        control = config.load(self._checkpoint)
        if isinstance(self._llm, ControlledExperts):
            self._llm.control_experts(control)
        elif control != RoutingControl():
            raise UsageError("this backend cannot control experts; use torch or onnxruntime")

    def routing_totals(self) -> RoutingTotals | None:
        """What control of experts did since this runtime was opened, if the engine counts it."""
        return self._llm.routing_totals() if isinstance(self._llm, ControlledExperts) else None

    @property
    def config(self) -> ModelConfig:
        """The checkpoint's configuration."""
        return self._config

    @property
    def processor(self) -> Processor:
        """What prepares prompts; threads may share it."""
        return self._processor

    @property
    def limits(self) -> EngineLimits:
        """The sizes the language model's engine was built for."""
        return self._llm.limits

    @property
    def vocabulary(self) -> int:
        """Rows of the logits; the tokenizer may have fewer entries."""
        return int(self._llm.embedding_table.shape[0])

    @property
    def decode_totals(self) -> DecodeTotals:
        """Decode steps since this runtime was opened."""
        return self._scheduler.totals

    @property
    def idle(self) -> bool:
        """Whether no request waits or runs."""
        return self._scheduler.idle

    def prepare(self, request: ChatRequest) -> PreparedPrompt:
        """Do the part of a request's work that needs no engine. Any thread may call this.

        Raises:
            RequestError: the request cannot be prepared; the message says which part and why.
        """
        return self._processor.prepare(request, self._pruner(request).shown_tokens)

    def submit(self, request: ChatRequest, prepared: PreparedPrompt | None = None) -> int:
        """Queue a request; returns the index its events will carry.

        Args:
            prepared: what :meth:`prepare` made of it, so that steps need not wait for that. Its
                time is then not part of the request's timing.
        """
        index = self._next_index
        self._next_index += 1
        if prepared is not None:
            self._prepared[index] = prepared
        self._scheduler.submit(index, request)
        return index

    def cancel(self, index: int) -> Response | None:
        """Stop a request; ``None`` if it has ended already."""
        self._prepared.pop(index, None)
        return self._scheduler.cancel(index)

    def step(self, *, decode: bool = True) -> list[Event]:
        """Admit at most one waiting request and decode one token of every active one.

        Args:
            decode: false only admits, so that several requests begin to decode together.
        """
        return self._scheduler.step(decode=decode)

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

    def _pruner(self, request: ChatRequest) -> VisualTokenPruner:
        try:
            return create_visual_pruner(
                VisualPrunerConfig.from_mapping(request.visual_pruning or {}, self._pruner_config)
            )
        except UsageError as error:
            raise RequestError(f"visual_pruning: {error}") from None

    def _admit(
        self, slot: int, index: int, request: ChatRequest, timing: RequestTiming
    ) -> tuple[Sequence, Tensor]:
        device = self._llm.device
        pruner = self._pruner(request)
        with timing.stage("media", device):
            prompt = self._prepared.pop(index, None) or self._processor.prepare(
                request, pruner.shown_tokens
            )
        timing.image_decode_ms = prompt.decode_ms
        with timing.stage("vision", device):
            if prompt.media and self._vision is None:
                raise RequestError(
                    "the request has images, but no visual engine was opened; pass its directory"
                    " with --multimodalEngineDir"
                )
            wanted = pruner.config.enabled and pruner.needs_importance
            features = self._vision.encode(prompt.media, importance=wanted) if self._vision else []
        io = assemble(self._llm, prompt, features, self._config.num_deepstack)
        with timing.stage("prefill", device):
            early = staging.begin(self._llm, slot, io, pruner)
        with timing.stage("prune", device):
            io, report = pruner.prune(io, prompt.shrunk_tokens, early)
        budget = self._budget(io, report, request)
        with timing.stage("prefill", device):
            logits = staging.finish(self._llm, slot, io, early, report)
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
