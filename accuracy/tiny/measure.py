"""Accuracy of an engine on held-out tiny-world prompts, per task, pruner and ratio.

    python -m edgevlm.accuracy.tiny.measure --engine engines/tiny-dense \
        --algorithm dart --ratios 0 0.25 0.5 0.75 --images 500 --output docs/results/accuracy.md

    python -m edgevlm.accuracy.tiny.measure --engine engines/tiny-dense \
        --algorithms all --ratios 0.25 0.5 --images 200 --output docs/results/pruners-accuracy.md

The first form reports one pruner in detail, the second compares several with the unpruned engine.
An answer counts when it is exactly right. Ratio 0 is the unpruned engine.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from ...core import UsageError
from ...core.manifest import edgevlm_version
from ...pruners import VisualPrunerConfig, create_visual_pruner, visual_pruner_names
from ...runtime import (
    ChatRequest,
    ImagePart,
    Message,
    Runtime,
    SamplingParams,
    TextPart,
    write_atomically,
)
from ...runtime.engines import open_engines
from ...runtime.processor import Processor
from ...runtime.request import Part
from ..evaluation.remembered_vision import RememberedVision
from .buckets import BUCKETS
from .heldout import HeldOutSample, heldout, tasks_of
from .questions import TASKS
from .score_tables import by_algorithm, by_ratio
from .scores import UNPRUNED, Score, Scores, Setting

_GREEDY = SamplingParams(temperature=0.0, max_tokens=8)
_REMEMBERED = 64  # batches of images; a prompt of one size is one batch


def measure(runtime: Runtime, settings: Sequence[Setting], images: int, seed: int) -> Scores:
    """Ask ``images`` prompts of every task, spread evenly over its buckets, under every setting."""
    scores: Scores = {}
    for task in TASKS:
        buckets = [bucket for bucket in BUCKETS if task in tasks_of(bucket)]
        for place, bucket in enumerate(buckets):
            share = images // len(buckets) + (place < images % len(buckets))
            samples = heldout(task, bucket, share, seed)
            while chunk := list(islice(samples, runtime.max_batch)):
                for setting in settings:
                    score = scores.setdefault((setting, task, bucket), Score())
                    answers = runtime.generate(_request(sample, setting) for sample in chunk)
                    for sample, answer in zip(chunk, answers, strict=True):
                        score.add(sample, answer)
            if share:
                line = (f"{s}: {scores[s, task, bucket].accuracy:.1f}" for s in settings)
                print(f"{task} {bucket}: " + "  ".join(line), flush=True)
    return scores


def _request(sample: HeldOutSample, setting: Setting) -> ChatRequest:
    images: list[Part] = [ImagePart(image) for image in sample.images]
    parts = (*images, TextPart(sample.question))
    return ChatRequest((Message("user", parts),), _GREEDY, visual_pruning=setting.pruning)


def _open(engine: Path, device: str | None) -> Runtime:
    """The engine's runtime, encoding each image once for all settings."""
    llm, visual = engine / "llm", engine / "visual"
    opened = open_engines(llm, visual, None, device)
    assert opened.vision is not None
    processor = Processor.from_directories(llm, visual, opened.vision.limits.max_image_tokens)
    vision = RememberedVision(opened.vision, _REMEMBERED)
    return Runtime(opened.llm, vision, processor, opened.config, checkpoint=opened.checkpoint)


def _header(title: str, command: Sequence[str]) -> Iterator[str]:
    yield f"# {title}\n"
    yield "Exactly right answers in per cent, greedy decoding, on prompts never trained on.\n"
    yield f"    {shlex.join(command)}\n"
    yield (
        f"edgevlm {edgevlm_version()}, torch {torch.__version__}, {platform.machine()} CPU,"
        f" Python {platform.python_version()}\n"
    )


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Accuracy on held-out tiny-world prompts.")
    parser.add_argument("--engine", type=Path, required=True, help="engine directory")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--algorithm", default="dart", metavar="NAME", help="report one in detail")
    which.add_argument(
        "--algorithms", nargs="+", metavar="NAME", help="compare these; all: every registered one"
    )
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75])
    parser.add_argument("--images", type=int, default=500, help="prompts per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None)
    parser.add_argument("--output", type=Path, required=True, help="Markdown report")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the report."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parse(words)
    command = ("python", "-m", "edgevlm.accuracy.tiny.measure", *words)
    name, ratios = arguments.engine.name, arguments.ratios
    compared = arguments.algorithms
    if compared == ["all"]:
        compared = visual_pruner_names()
    settings = [
        Setting(a, r) if r else UNPRUNED for a in compared or [arguments.algorithm] for r in ratios
    ]
    if compared:
        settings.insert(0, UNPRUNED)
    settings = list(dict.fromkeys(settings))
    try:
        for setting in settings:
            create_visual_pruner(VisualPrunerConfig.from_mapping(setting.pruning))
    except UsageError as error:
        raise SystemExit(f"error: {error}") from None
    scores = measure(
        _open(arguments.engine, arguments.device), settings, arguments.images, arguments.seed
    )
    if compared:
        title = f"Accuracy of `{name}` under every visual-token pruner"
        tables = by_algorithm(scores)
    else:
        title = f"Accuracy of `{name}` under `{arguments.algorithm}` pruning"
        tables = by_ratio(scores)
    write_atomically(arguments.output, "\n".join((*_header(title, command), tables)))


if __name__ == "__main__":
    main()
