"""Running automatic ratios, and then the fixed ratios that keep as many tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ...core import RequestError, UsageError
from ...pruners import VisualPrunerConfig, create_visual_pruner
from ...runtime import (
    ChatRequest,
    ImagePart,
    Message,
    Response,
    Runtime,
    SamplingParams,
    TextPart,
)
from ...runtime.request import Part
from .buckets import BUCKETS
from .heldout import HeldOutSample, heldout, tasks_of
from .questions import TASKS

_GREEDY = SamplingParams(temperature=0.0, max_tokens=8)


@dataclass(frozen=True)
class Bounds:
    """One automatic setting."""

    algorithm: str
    lowest: float
    highest: float

    @classmethod
    def parse(cls, text: str) -> Bounds:
        """``ALGORITHM:AUTO_MIN:AUTO_MAX``.

        Raises:
            UsageError: it is not of that form, or not legal.
        """
        try:
            algorithm, lowest, highest = text.split(":")
            bounds = cls(algorithm, float(lowest), float(highest))
        except ValueError:
            raise UsageError(
                f"--settings {text!r}: must be ALGORITHM:AUTO_MIN:AUTO_MAX, as in dart:0.1:0.5"
            ) from None
        create_visual_pruner(VisualPrunerConfig.from_mapping(bounds.pruning))
        return bounds

    @property
    def pruning(self) -> dict[str, Any]:
        """The settings of a request."""
        bounds = {"auto_min": self.lowest, "auto_max": self.highest}
        return {"algorithm": self.algorithm, "reduction_ratio": "auto", **bounds}

    def fixed(self, ratio: float) -> dict[str, Any]:
        """The same with a fixed ratio."""
        return {"algorithm": self.algorithm, "reduction_ratio": ratio}

    def __str__(self) -> str:
        return f"`{self.algorithm}` {self.lowest:g} to {self.highest:g}"


@dataclass
class Answers:
    """What came of all prompts under one setting: a list each, in the order of the prompts."""

    tasks: list[str] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def add(self, sample: HeldOutSample, response: Response) -> None:
        """Take in one answer.

        Raises:
            RequestError: there is none.
        """
        report = response.report
        if response.error is not None or report is None:
            raise RequestError(f"{sample.task} {sample.bucket} {sample.index}: {response.error}")
        self.tasks.append(sample.task)
        self.buckets.append(sample.bucket)
        self.right.append(response.text == sample.answer)
        self.tokens.append(report.visual_tokens_before)
        self.kept.append(report.visual_tokens_after)

    def matching_ratio(self) -> float:
        """The fixed ratio that keeps no fewer tokens: not in total, nor of the average prompt."""
        total = sum(self.kept) / sum(self.tokens)
        mean = float(np.mean(np.divide(self.kept, self.tokens)))
        return math.floor(1e4 * (1 - max(total, mean))) / 1e4


@dataclass(frozen=True)
class Comparison:
    """One automatic setting and the fixed ratio of the same budget."""

    bounds: Bounds
    ratio: float
    auto: Answers
    fixed: Answers


def prompts(images: int, seed: int) -> Iterator[HeldOutSample]:
    """``images`` prompts of every task, spread evenly over its buckets."""
    for task in TASKS:
        buckets = [bucket for bucket in BUCKETS if task in tasks_of(bucket)]
        for place, bucket in enumerate(buckets):
            share = images // len(buckets) + (place < images % len(buckets))
            yield from heldout(task, bucket, share, seed)


def ask(
    runtime: Runtime, samples: Iterable[HeldOutSample], prunings: Sequence[Mapping[str, Any]]
) -> list[Answers]:
    """Answer all prompts under each of ``prunings``, a few prompts at a time."""
    answers = [Answers() for _ in prunings]
    samples = iter(samples)
    while chunk := list(islice(samples, runtime.max_batch)):
        for pruning, found in zip(prunings, answers, strict=True):
            responses = runtime.generate(_request(sample, pruning) for sample in chunk)
            for sample, response in zip(chunk, responses, strict=True):
                found.add(sample, response)
    return answers


def compare(
    runtime: Runtime, settings: Sequence[Bounds], images: int, seed: int
) -> list[Comparison]:
    """Run every setting, then the fixed ratios that follow from what they kept."""
    autos = ask(runtime, prompts(images, seed), [bounds.pruning for bounds in settings])
    ratios = [auto.matching_ratio() for auto in autos]
    same = [bounds.fixed(ratio) for bounds, ratio in zip(settings, ratios, strict=True)]
    fixed = ask(runtime, prompts(images, seed), same)
    return [Comparison(*row) for row in zip(settings, ratios, autos, fixed, strict=True)]


def _request(sample: HeldOutSample, pruning: Mapping[str, Any]) -> ChatRequest:
    images: list[Part] = [ImagePart(image) for image in sample.images]
    parts = (*images, TextPart(sample.question))
    return ChatRequest((Message("user", parts),), _GREEDY, visual_pruning=dict(pruning))
