"""Answering units of work with one engine at a time: what a worker process does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import RequestError, UsageError
from ...pruners import VisualTokenPruner
from ...runtime import ChatRequest, Response, Runtime, SamplingParams
from ...runtime.prompt import PreparedPrompt
from ..datasets import Sample
from .answer import Answer
from .engine import EngineDirs
from .setting import UNPRUNED, Setting


@dataclass(frozen=True)
class Unit:
    """A few samples under the settings that are still wanted, on one engine.

    They are answered together, so that an answer never depends on what ran before.
    """

    engine: EngineDirs
    samples: tuple[Sample, ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class RunOptions:
    """How to run, the same for all units.

    Args:
        expert_parallel: this process leads the other ranks, see :mod:`.ranks`.
        device: of the torch target.
        checkpoint: where the checkpoint is now, if it was moved.
        max_tokens: longest answer; the data set says if ``None``.
    """

    device: str | None = None
    checkpoint: Path | None = None
    max_tokens: int | None = None
    expert_parallel: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, found {self.max_tokens}")


class Runner:
    """Answers units; the engine of the last one stays open."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._opened: tuple[EngineDirs, Runtime] | None = None
        self._routing: Mapping[str, Any] | None = None

    def answers(self, unit: Unit) -> Iterator[list[Answer]]:
        """The answers of all its samples, setting by setting.

        Raises:
            EdgeVLMError: the engine cannot be opened, or cannot do what a setting asks.
        """
        runtime = self._runtime(unit.engine)
        prepared = self._prepare(runtime, unit.samples)
        for setting in unit.settings:
            self._route(runtime, setting)
            requests = [chat_request(s, setting, self._options.max_tokens) for s in unit.samples]
            shared = None if _shrinks_images(setting) else prepared
            responses = _generate(runtime, requests, shared or [None] * len(requests))
            yield [
                Answer.of(unit.engine.name, setting.name, sample, response)
                for sample, response in zip(unit.samples, responses, strict=True)
            ]

    def _runtime(self, engine: EngineDirs) -> Runtime:
        if self._opened is None or self._opened[0] != engine:
            self._opened = None  # its memory is free before another engine takes more
            self._routing = None
            options = self._options
            runtime = engine.open(
                options.device, options.checkpoint, expert_parallel=options.expert_parallel
            )
            self._opened = engine, runtime
        return self._opened[1]

    def _route(self, runtime: Runtime, setting: Setting) -> None:
        """Route experts as the setting says; files are read only when that changes."""
        if setting.routing != self._routing:
            runtime.set_expert_routing(setting.expert_routing())
            self._routing = setting.routing

    def _prepare(self, runtime: Runtime, samples: Sequence[Sample]) -> list[PreparedPrompt | None]:
        """Prompts, decoded and laid out once for all settings; ``None`` where that fails."""
        prompts: list[PreparedPrompt | None] = []
        for sample in samples:
            try:
                prompts.append(runtime.prepare(chat_request(sample, UNPRUNED, None)))
            except RequestError:  # every request about it will say so
                prompts.append(None)
        return prompts


def chat_request(sample: Sample, setting: Setting, max_tokens: int | None) -> ChatRequest:
    """The request that asks ``sample`` under ``setting``, greedily."""
    return ChatRequest(
        sample.messages,
        SamplingParams(temperature=0.0, max_tokens=max_tokens or sample.max_tokens),
        visual_pruning={"enabled": False} if setting.pruning is None else setting.pruning,
        id=sample.id,
    )


def _shrinks_images(setting: Setting) -> bool:
    """Whether it changes prompts before they are laid out."""
    return type(setting.pruner()).shown_tokens is not VisualTokenPruner.shown_tokens


def _generate(
    runtime: Runtime, requests: Sequence[ChatRequest], prepared: Sequence[PreparedPrompt | None]
) -> list[Response]:
    wanted = [runtime.submit(r, p) for r, p in zip(requests, prepared, strict=True)]
    done: dict[int, Response] = {}
    while not runtime.idle:
        for event in runtime.step():
            if isinstance(event, Response):
                done[event.index] = event
    return [done[index] for index in wanted]
