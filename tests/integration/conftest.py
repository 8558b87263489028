"""Engines of the bundled checkpoint, built once per test process, and held-out questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgevlm.accuracy.tiny.heldout import HeldOutSample, heldout
from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.core import EngineLimits
from edgevlm.runtime import ChatRequest, ImagePart, Message, Runtime, SamplingParams, TextPart

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "examples/checkpoints/tiny-dense"
LIMITS = EngineLimits(max_input_len=320, max_kv_len=640, max_batch=4, max_image_tokens=256)
BACKENDS = ("onnxruntime", "torch")


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Engine directories by target."""
    folder = tmp_path_factory.mktemp("engines")
    for target in BACKENDS:
        build_engine(BuildConfig(CHECKPOINT, folder / target, target, "float32", LIMITS))
    return {target: folder / target for target in BACKENDS}


@pytest.fixture(scope="session")
def runtimes(engines: dict[str, Path]) -> dict[str, Runtime]:
    """Open runtimes by target, on the CPU."""
    return {
        target: Runtime.open(folder / "llm", folder / "visual", device="cpu")
        for target, folder in engines.items()
    }


def ask(sample: HeldOutSample, **changes: object) -> ChatRequest:
    """A greedy request for one held-out sample."""
    parts = (*(ImagePart(image) for image in sample.images), TextPart(sample.question))
    sampling = SamplingParams(temperature=0.0, max_tokens=8)
    return ChatRequest((Message("user", parts),), sampling, **changes)  # type: ignore[arg-type]


def samples(count: int, seed: int = 5) -> list[HeldOutSample]:
    """``count`` samples over all image sizes, several images and tables."""
    kinds = (
        ("shape", "s256"),
        ("colour", "w384"),
        ("count", "h384"),
        ("read", "s512"),
        ("which", "m2"),
        ("read", "m4"),
        ("table", "t256"),
        ("table", "t512"),
    )
    each = -(-count // len(kinds))
    drawn = [list(heldout(task, bucket, each, seed)) for task, bucket in kinds]
    return [group[i] for i in range(each) for group in drawn][:count]
