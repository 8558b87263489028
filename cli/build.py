"""``edgevlm build``: a checkpoint becomes an engine directory."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from ..builder import STEPS, BuildConfig, build_engine, targets
from ..core.limits import EngineLimits
from ..core.manifest import ENGINE_DTYPES

_LIMIT_HELP = {
    "max_input_len": "tokens of one prompt, after pruning",
    "max_kv_len": "KV-cache slots of one sequence: prompt and answer",
    "max_batch": "sequences decoded together",
    "max_image_tokens": "visual tokens of one image or frame pair (one per 32x32 pixels)",
    "max_images": "images or frame pairs of one vision call",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="Hugging Face checkpoint"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="engine directory to (re)place"
    )
    parser.add_argument(
        "--target", required=True, help=f"what runs it: {', '.join(targets.names())}"
    )
    parser.add_argument(
        "--dtype",
        choices=ENGINE_DTYPES,
        help="default: float32 for onnxruntime, the checkpoint's own for torch",
    )
    for field in fields(EngineLimits):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int,
            default=field.default,
            metavar="N",
            help=f"{_LIMIT_HELP[field.name]} (default: {field.default})",
        )


def run(args: argparse.Namespace) -> int:
    """Build the engine the arguments describe; returns the exit status."""
    limits = EngineLimits(**{f.name: getattr(args, f.name) for f in fields(EngineLimits)})
    config = BuildConfig(args.checkpoint, args.output, args.target, args.dtype, limits)
    start = time.monotonic()
    with _progress() as on_step:
        build_engine(config, on_step)
    print(f"built {args.output} for {args.target} in {time.monotonic() - start:.1f} s")
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A bar where somebody watches, plain lines where a log does. Both go to stderr."""
    if not sys.stderr.isatty():
        yield lambda step: print(f"edgevlm build: {step}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(STEPS))
        yield lambda step: bar.update(task, description=step, completed=STEPS.index(step))
        bar.update(task, description="done", completed=len(STEPS))
