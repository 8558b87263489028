"""Time to first token of a prompt with many images, with and without VisionZip.

Run ``python -m edgevlm.benchmarks.ttft --output ttft.json``. Vision tower and language model have a
published model's shape and random weights; patches are random and already on the device. A row's
``ttft_ms`` is measured as one call, from patches to logits; the parts are measured one by one.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core import EngineLimits, PipelineIO, VisualSpan, exit_status
from ..models import TextConfig, VisionConfig, VisionTower
from ..pruners import VisualPrunerConfig, create_visual_pruner
from ..runtime.embeddings import assemble
from ..runtime.engines.torch_llm import TorchLLMEngine
from ..runtime.engines.torch_vision import TorchVisionEngine
from ..runtime.positions import mrope_positions
from ..runtime.prompt import PreparedPrompt, VisualItem
from ..runtime.vision import VisionRunner, VisualFeatures
from .device import open_device
from .llm_shapes import SHAPES, make_engine
from .report import environment, table, write_json
from .timing import Call, Timer

_TEXT = 40  # tokens of question around the images


@dataclass(frozen=True)
class Subject:
    """Both networks, and the prompt they are given."""

    text: TextConfig
    vision: VisionConfig
    grid: tuple[int, int]  # patches of each image
    images: int

    @property
    def tokens_per_image(self) -> int:
        return self.grid[0] * self.grid[1] // self.vision.merge_unit


_VISION = VisionConfig(27, 1152, 4304, 16, 5120, 2304, (8, 16, 24))
_TOY_VISION = VisionConfig(3, 64, 96, 4, 64, 64, (0, 1))
SUBJECTS = {
    "32b": Subject(SHAPES["32b"].config, _VISION, (32, 32), 30),
    "tiny": Subject(SHAPES["tiny"].config, _TOY_VISION, (4, 4), 5),
}


class Pipeline:
    """From patches to logits, as the runtime does it."""

    def __init__(self, subject: Subject, dtype: torch.dtype, device: torch.device) -> None:
        self.device, self.planes = device, len(subject.vision.deepstack_layers)
        tokens = subject.images * (subject.tokens_per_image + 2) + _TEXT
        limits = EngineLimits(tokens, tokens + 64, 1, subject.tokens_per_image, subject.images)
        state = _random_tower(subject.vision, dtype, device)
        layer = subject.vision.depth - 1
        tower = TorchVisionEngine(subject.vision, limits, state, dtype, device, layer)
        patches = subject.images * subject.grid[0] * subject.grid[1]
        self.runner = VisionRunner(tower, subject.vision, patches)
        self.llm: TorchLLMEngine = make_engine(
            subject.text, limits, dtype, device, fused=device.type == "cuda"
        )
        self.prompt = _prompt(subject, dtype, device)

    def features(self, ratio: float | None) -> list[VisualFeatures]:
        """The vision tower, with importance where a pruner will want it."""
        return self.runner.encode(self.prompt.media, importance=ratio is not None)

    def assembled(self, features: Sequence[VisualFeatures], ratio: float | None) -> PipelineIO:
        """The prompt to prefill."""
        io = assemble(self.llm, self.prompt, features, self.planes)
        if ratio is None:
            return io
        return create_visual_pruner(VisualPrunerConfig(True, "visionzip", ratio)).prune(io)[0]

    def first_logits(self, ratio: float | None) -> Tensor:
        """All of it."""
        return self.llm.prefill(0, self.assembled(self.features(ratio), ratio))


def measure(pipeline: Pipeline, ratios: Sequence[float], timer: Timer) -> Iterator[dict[str, Any]]:
    """The whole prompt, then one row per ratio."""
    full = None
    for ratio in (None, *ratios):
        features = pipeline.features(ratio)
        io = pipeline.assembled(features, ratio)
        calls: dict[str, Call] = {
            "vision_ms": partial(pipeline.features, ratio),
            "assemble_prune_ms": partial(pipeline.assembled, features, ratio),
            "llm_ms": partial(pipeline.llm.prefill, 0, io),
            "ttft_ms": partial(pipeline.first_logits, ratio),
        }
        times = {name: timer.eager([call]) for name, call in calls.items()}
        full = full or times["ttft_ms"]
        what = "whole prompt" if ratio is None else f"visionzip, {ratio:g} removed"
        yield {"what": what, "tokens": len(io), **times, "reduction": 1 - times["ttft_ms"] / full}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m edgevlm.benchmarks.ttft")
    parser.add_argument("--shape", choices=sorted(SUBJECTS), default="32b")
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.4])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    return exit_status(lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> None:
    device = open_device(arguments.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    timer = Timer(device, arguments.repeats, warm_up=3)
    found = environment("edgevlm.benchmarks.ttft", device)
    with torch.inference_mode():
        pipeline = Pipeline(SUBJECTS[arguments.shape], dtype, device)
        rows = list(measure(pipeline, arguments.ratios, timer))
    if arguments.output is not None:
        write_json(arguments.output, {"environment": found, "ttft": rows})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    print(f"\n{table(rows)}")


def _random_tower(
    config: VisionConfig, dtype: torch.dtype, device: torch.device
) -> Mapping[str, Tensor]:
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in VisionTower(config).state_dict().items()}
    state = {}
    for name, shape in shapes.items():
        generator = torch.Generator(device).manual_seed(zlib.crc32(name.encode()))
        values = torch.empty(shape, dtype=dtype, device=device)
        mean, deviation = (1.0, 0.1) if len(shape) == 1 else (0.0, shape[1:].numel() ** -0.5)
        state[name] = values.normal_(mean, deviation, generator=generator)
    return state


def _prompt(subject: Subject, dtype: torch.dtype, device: torch.device) -> PreparedPrompt:
    """Image after image, two markers each, then a question."""
    size, spans, token = subject.tokens_per_image, [], 1
    for image in range(subject.images):
        spans.append(VisualSpan(token, token + size, image))
        token += size + 2
    rows, columns = (side // subject.vision.merge_size for side in subject.grid)
    length = token + _TEXT - 1
    positions, following = mrope_positions(length, spans, [(rows, columns)] * subject.images)
    patches = torch.randn(
        subject.images, subject.grid[0] * subject.grid[1], subject.vision.patch_dim, device=device
    ).to(dtype)
    items = tuple(
        VisualItem(each, subject.grid, image) for image, each in enumerate(patches.unbind())
    )
    ids = torch.arange(length) % subject.text.vocab_size
    return PreparedPrompt("", ids, positions, following, tuple(spans), items, 0.0, 0.0, ())


if __name__ == "__main__":
    sys.exit(main())
