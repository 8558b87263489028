"""The tiny world as a data set: held-out scenes, drawn by several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from ..tiny.buckets import BUCKETS
from ..tiny.heldout import HeldOutSample, heldout, tasks_of
from ..tiny.questions import TASKS
from .image_files import FOLDER
from .sample import to_json

_STEP = 32  # prompts drawn by one job
_MAX_TOKENS = 8


@dataclass(frozen=True)
class _Job:
    """Prompts ``start`` to ``stop`` of one task and bucket."""

    output: Path
    task: str
    bucket: str
    start: int
    stop: int
    seed: int


def draw_all(output: Path, samples: int, seed: int, workers: int) -> Iterator[dict[str, Any]]:
    """Lines of ``samples`` prompts per task, spread evenly over the buckets that offer it.

    The prompts do not depend on ``workers``.
    """
    jobs = list(_jobs(output, samples, seed))
    workers = min(workers, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield from _draw(job)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for lines in pool.map(_draw_alone, jobs):
            yield from lines


def _jobs(output: Path, samples: int, seed: int) -> Iterator[_Job]:
    for task in TASKS:
        buckets = [bucket for bucket in BUCKETS if task in tasks_of(bucket)]
        for place, bucket in enumerate(buckets):
            share = samples // len(buckets) + (place < samples % len(buckets))
            for start in range(0, share, _STEP):
                yield _Job(output, task, bucket, start, min(start + _STEP, share), seed)


def _draw_alone(job: _Job) -> list[dict[str, Any]]:
    torch.set_num_threads(1)  # the other processes use the other cores
    return _draw(job)


def _draw(job: _Job) -> list[dict[str, Any]]:
    drawn = heldout(job.task, job.bucket, job.stop, job.seed, first=job.start)
    return [_saved(sample, job.output) for sample in drawn]


def _saved(sample: HeldOutSample, output: Path) -> dict[str, Any]:
    name = f"{sample.task}-{sample.bucket}-{sample.index}"
    content = []
    for place, pixels in enumerate(sample.images):
        path = f"{FOLDER}/{name}-{place}.png"
        Image.fromarray(pixels).save(output / path, compress_level=1)
        content.append({"type": "image", "image": path})
    content.append({"type": "text", "text": sample.question})
    return to_json(
        name,
        sample.task,
        content,
        (sample.answer,),
        "exact",
        subtask=describe_bucket(sample.bucket),
        max_tokens=_MAX_TOKENS,
    )


def describe_bucket(name: str) -> str:
    """What a bucket's prompts show, such as ``"2 x 256x256"`` or ``"table 512x512"``."""
    bucket = BUCKETS[name]
    size = f"{bucket.width}x{bucket.height}"
    return f"table {size}" if bucket.table else f"{bucket.images} x {size}"
