"""Accuracy of an engine on held-out tiny-world prompts, per task and pruning ratio.

    python -m edgevlm.accuracy.tiny.measure --engine engines/tiny-dense \
        --algorithm dart --ratios 0 0.25 0.5 0.75 --images 500 --output docs/results/accuracy.md

An answer counts when it is exactly right. Ratio 0 is the unpruned engine.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from ...core.manifest import edgevlm_version
from ...runtime import (
    ChatRequest,
    ImagePart,
    Message,
    Response,
    Runtime,
    SamplingParams,
    TextPart,
    write_atomically,
)
from ...runtime.request import Part
from .buckets import BUCKETS
from .heldout import HeldOutSample, heldout, tasks_of
from .questions import TASKS

_GREEDY = SamplingParams(temperature=0.0, max_tokens=8)


@dataclass
class Score:
    """Right answers and visual tokens of one (ratio, task, bucket)."""

    asked: int = 0
    right: int = 0
    tokens: int = 0
    kept: int = 0

    def add(self, sample: HeldOutSample, response: Response) -> None:
        """Count one answer."""
        report = response.report
        if response.error is not None or report is None:
            raise SystemExit(f"{sample.task}/{sample.bucket}/{sample.index}: {response.error}")
        self.asked += 1
        self.right += response.text == sample.answer
        self.tokens += report.visual_tokens_before
        self.kept += report.visual_tokens_after

    def __add__(self, other: Score) -> Score:
        return Score(
            self.asked + other.asked,
            self.right + other.right,
            self.tokens + other.tokens,
            self.kept + other.kept,
        )

    @property
    def accuracy(self) -> str:
        """Per cent of exactly right answers."""
        return f"{100 * self.right / self.asked:.1f}"


Scores = dict[tuple[float, str, str], Score]


def measure(
    runtime: Runtime, algorithm: str, ratios: Sequence[float], images: int, seed: int
) -> Scores:
    """Ask ``images`` prompts of every task, spread evenly over its buckets, at every ratio."""
    scores: Scores = {}
    for task in TASKS:
        buckets = [bucket for bucket in BUCKETS if task in tasks_of(bucket)]
        for place, bucket in enumerate(buckets):
            share = images // len(buckets) + (place < images % len(buckets))
            samples = heldout(task, bucket, share, seed)
            while chunk := list(islice(samples, runtime.max_batch)):
                for ratio in ratios:
                    score = scores.setdefault((ratio, task, bucket), Score())
                    answers = runtime.generate(_request(s, algorithm, ratio) for s in chunk)
                    for sample, answer in zip(chunk, answers, strict=True):
                        score.add(sample, answer)
            print(f"{task} {bucket}: " + _line(scores, ratios, task, bucket), flush=True)
    return scores


def format_scores(scores: Scores, ratios: Sequence[float]) -> str:
    """Markdown tables: accuracy per task, then per task and bucket."""
    head = "".join(f" removed {ratio:g} |" for ratio in ratios)
    lines = [f"| task | prompts |{head}", "|---|---|" + "---|" * len(ratios)]
    for task in TASKS:
        totals = [_total(scores, ratio, task) for ratio in ratios]
        cells = "".join(f" {total.accuracy} |" for total in totals)
        lines.append(f"| {task} | {totals[0].asked} |{cells}")
    everything = [_total(scores, ratio, None) for ratio in ratios]
    kept = "".join(f" {100 * total.kept / total.tokens:.1f} |" for total in everything)
    lines += [f"| visual tokens kept (%) | {everything[0].asked} |{kept}", ""]
    lines += [f"| task | images |{head}", "|---|---|" + "---|" * len(ratios)]
    for task, bucket in sorted({key[1:] for key in scores}, key=_order):
        row = "".join(f" {scores[ratio, task, bucket].accuracy} |" for ratio in ratios)
        layout = BUCKETS[bucket]
        size = f"{layout.images} x {layout.width}x{layout.height}"
        lines.append(f"| {task} | {size} |{row}")
    return "\n".join(lines) + "\n"


def _request(sample: HeldOutSample, algorithm: str, ratio: float) -> ChatRequest:
    images: list[Part] = [ImagePart(image) for image in sample.images]
    parts = (*images, TextPart(sample.question))
    pruning = {"algorithm": algorithm, "reduction_ratio": ratio} if ratio else {"enabled": False}
    return ChatRequest((Message("user", parts),), _GREEDY, visual_pruning=pruning)


def _line(scores: Scores, ratios: Sequence[float], task: str, bucket: str) -> str:
    return "  ".join(f"{ratio:g}: {scores[ratio, task, bucket].accuracy}" for ratio in ratios)


def _total(scores: Scores, ratio: float, task: str | None) -> Score:
    chosen = (s for (r, t, _), s in scores.items() if r == ratio and task in (None, t))
    return sum(chosen, Score())


def _order(key: tuple[str, str]) -> tuple[int, int]:
    return TASKS.index(key[0]), list(BUCKETS).index(key[1])


def _header(arguments: argparse.Namespace, command: str) -> Iterator[str]:
    yield f"# Accuracy of `{arguments.engine.name}` under `{arguments.algorithm}` pruning\n"
    yield "Exactly right answers in per cent, greedy decoding, on prompts never trained on.\n"
    yield f"    {command}\n"
    yield (
        f"edgevlm {edgevlm_version()}, torch {torch.__version__}, {platform.machine()} CPU,"
        f" Python {platform.python_version()}\n"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description="Accuracy on held-out tiny-world prompts.")
    parser.add_argument("--engine", type=Path, required=True, help="engine directory")
    parser.add_argument("--algorithm", default="dart")
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75])
    parser.add_argument("--images", type=int, default=500, help="prompts per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None)
    parser.add_argument("--output", type=Path, required=True, help="Markdown report")
    arguments = parser.parse_args(argv)
    runtime = Runtime.open(
        arguments.engine / "llm", arguments.engine / "visual", device=arguments.device
    )
    scores = measure(
        runtime, arguments.algorithm, arguments.ratios, arguments.images, arguments.seed
    )
    command = (
        f"python -m edgevlm.accuracy.tiny.measure --engine {arguments.engine}"
        f" --algorithm {arguments.algorithm}"
        f" --ratios {' '.join(f'{ratio:g}' for ratio in arguments.ratios)}"
        f" --images {arguments.images} --seed {arguments.seed} --output {arguments.output}"
    )
    text = "\n".join((*_header(arguments, command), format_scores(scores, arguments.ratios)))
    write_atomically(arguments.output, text)


if __name__ == "__main__":
    main()
