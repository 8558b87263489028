"""Engines built once for the whole folder: one per combination of weight and engine dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

from edgevlm.builder import BuildConfig, build_engine, text_graph, trace, vision_graph
from edgevlm.core.limits import EngineLimits
from edgevlm.core.manifest import TensorSpec
from tests.builder.checkpoints import save_random
from tests.models.random_model import EXPERTS, RandomModel

LIMITS = EngineLimits(max_input_len=32, max_kv_len=48, max_batch=3, max_image_tokens=16)


@dataclass(frozen=True)
class Built:
    """``model`` holds the weights that were saved; ``tolerance`` is what its engine owes it."""

    model: RandomModel
    checkpoint: Path
    engine: Path
    tolerance: float


@pytest.fixture(scope="session", autouse=True)
def traced_once() -> Iterator[None]:
    """Random models come in few shapes, so the graph of one is traced once."""
    graphs: dict[str, onnx.GraphProto] = {}

    def remember(
        build: Callable[[], nn.Module],
        forward: Callable[..., tuple[Tensor, ...]],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        dtype: torch.dtype,
    ) -> onnx.GraphProto:
        with torch.device("meta"):
            shapes = [(name, tensor.shape) for name, tensor in build().state_dict().items()]
        key = repr((inputs, outputs, dtype, shapes))
        if key not in graphs:
            graphs[key] = trace.trace(build, forward, inputs, outputs, dtype)
        copy = onnx.GraphProto()
        copy.CopyFrom(graphs[key])
        return copy

    with pytest.MonkeyPatch.context() as patch:
        for module in (text_graph, vision_graph):
            patch.setattr(module, "trace", remember)
        yield


def _build(root: Path, model: RandomModel, dtype: str, tolerance: float) -> Built:
    config = BuildConfig(
        root / "checkpoint", root / "engine", "onnxruntime", dtype, LIMITS, routing=()
    )
    build_engine(config)
    model.reference.float()
    return Built(model, config.checkpoint, config.output, tolerance)


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """float32 weights and engine, own head, one file."""
    root = tmp_path_factory.mktemp("full")
    return _build(root, save_random(root / "checkpoint"), "float32", 1e-4)


@pytest.fixture(scope="session")
def widened(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """bfloat16 weights in a float32 engine, tied head, many files."""
    root = tmp_path_factory.mktemp("widened")
    model = save_random(root / "checkpoint", torch.bfloat16, tied=True, shard="100KB")
    return _build(root, model, "float32", 1e-4)


@pytest.fixture(scope="session")
def half(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """float16 weights and engine, tied head."""
    root = tmp_path_factory.mktemp("half")
    model = save_random(root / "checkpoint", torch.float16, tied=True)
    return _build(root, model, "float16", 0.05)


@pytest.fixture(scope="session")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A mixture of experts in all layers but one, float32, own head."""
    root = tmp_path_factory.mktemp("experts")
    model = save_random(root / "checkpoint", experts=EXPERTS)
    return _build(root, model, "float32", 1e-4)


@pytest.fixture(scope="session")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The same with float16 weights that have the experts' axes the other way round."""
    root = tmp_path_factory.mktemp("exchanged")
    model = save_random(root / "checkpoint", torch.float16, experts=EXPERTS, exchanged=True)
    return _build(root, model, "float32", 1e-4)


@pytest.fixture(params=["full", "widened", "half", "experts"])
def built(request: pytest.FixtureRequest) -> Built:
    """Each of them in turn."""
    engine: Built = request.getfixturevalue(request.param)
    return engine
