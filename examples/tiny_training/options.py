"""Command line of the trainer."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from edgevlm.accuracy.tiny.architecture import KINDS

from .schedule import STAGES
from .step import PATCHES_PER_STEP, PRECISIONS

COMPILE_MODES = ("off", "static", "dynamic")


@dataclass(frozen=True)
class Options:
    """One command; see :func:`parse_options` for the meaning of each field."""

    model: str
    minutes: float
    stage: str
    decay_minutes: float
    rate: float
    warm_up: int
    precision: str
    compile: str
    graphs: bool
    questions: int
    patches: int
    workers: int
    seed: int
    max_steps: int | None
    until: float | None
    eval_seconds: float
    eval_prompts: int
    save_seconds: float
    work: Path
    resume: bool
    init: Path | None
    export: Path | None
    shard_mib: float
    smoke: bool
    device: str

    def __post_init__(self) -> None:
        if self.minutes <= 0 or self.decay_minutes < 0:
            raise ValueError("--minutes is positive and --decay-minutes not negative")
        if self.questions < 1 or self.workers < 1:
            raise ValueError("--questions and --workers are at least 1")


def parse_options(arguments: list[str] | None = None) -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Train a tiny Qwen3-VL checkpoint.")
    add = parser.add_argument
    add("--model", choices=KINDS, default="dense", help="one feed-forward per layer, or experts")
    add("--minutes", type=float, default=9.0, help="total time, evaluation and export included")
    add("--stage", choices=sorted(STAGES), default="first", help="which buckets train")
    add("--decay-minutes", type=float, default=0.0, help="learning-rate decay before the end")
    add("--rate", type=float, default=1.2e-3, help="peak learning rate")
    add("--warm-up", type=int, default=300, help="steps to the peak")
    add("--precision", choices=PRECISIONS, default="bf16")
    add("--compile", choices=COMPILE_MODES, default="off", help="fuse the repeated blocks")
    add("--no-graphs", dest="graphs", action="store_false", help="run steps eagerly")
    add("--questions", type=int, default=8, help="questions per prompt")
    add("--patches", type=int, default=PATCHES_PER_STEP, help="patches per step")
    add("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    add("--seed", type=int, default=1)
    add("--max-steps", type=int, default=None)
    add("--until", type=float, default=None, help="stop when every accuracy is this, in per cent")
    add("--eval-seconds", type=float, default=75.0, help="between evaluations")
    add("--eval-prompts", type=int, default=256, help="held-out prompts per bucket")
    add("--save-seconds", type=float, default=120.0, help="between saved states")
    add("--work", type=Path, required=True, help="folder of the resumable state")
    add("--resume", action="store_true", help="go on from the state in --work")
    add("--init", type=Path, default=None, help="start from an exported checkpoint")
    add("--export", type=Path, default=None, help="write the checkpoint here at the end")
    add("--shard-mib", type=float, default=12.0, help="largest weight file; 0 writes one file")
    add("--smoke", action="store_true", help="time every bucket, train nothing")
    add("--device", default=None)
    values = vars(parser.parse_args(arguments))
    if values["device"] is None:
        import torch

        values["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    return Options(**values)
