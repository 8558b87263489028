"""Real builds with TensorRT for RTX, on a machine without a GPU."""

from __future__ import annotations

import _thread
import time
from pathlib import Path

import pytest
import tensorrt_rtx as trt

from edgevlm.benchmarks.qwen3_vl_shapes import write_checkpoint
from edgevlm.builder import BuildConfig, Network, build_engine
from edgevlm.builder.tensorrt_log import BuildLog
from edgevlm.builder.tensorrt_network import parse_network
from edgevlm.builder.tensorrt_progress import BuildCancelled
from edgevlm.core import EngineError, EngineLimits
from edgevlm.core.manifest_file import open_manifest
from edgevlm.models import Checkpoint

from .conftest import CHECKPOINT, build

GPUS = ("8.9", "12.0")


@pytest.fixture(scope="module")
def slice_4b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two decoder layers and four vision blocks of Qwen3-VL-4B."""
    path = tmp_path_factory.mktemp("slice") / "checkpoint"
    write_checkpoint(path, "4b", layers=2, depth=4, vocabulary=1024)
    return path


def test_the_bundled_checkpoint_builds(tmp_path: Path) -> None:
    seen: list[float] = []
    engine = build(
        tmp_path / "engine",
        target="tensorrt-rtx",
        compute_capabilities=GPUS,
        on_progress=lambda phase, fraction: seen.append(fraction),
    )
    for kind, profiles in (("llm", ["prefill", "decode"]), ("visual", ["encode"])):
        manifest = open_manifest(engine / kind, kind)
        assert manifest.compute_capabilities == GPUS
        assert manifest.backend.version == trt.__version__
        assert [profile.name for profile in manifest.profiles] == profiles
        weights = Checkpoint(CHECKPOINT).nbytes
        assert 0.2 * weights < manifest.files["model.plan"].bytes < 2 * weights
    assert len(seen) > 100
    assert (min(seen), max(seen)) == (0.0, 1.0)
    names = {path.name for path in tmp_path.rglob("*") if "timing" in path.name}
    assert names == set()  # a timing cache would have needed a driver


def test_a_4b_slice_builds_in_its_own_dtype(slice_4b: Path, tmp_path: Path) -> None:
    engine = build(
        tmp_path / "engine",
        slice_4b,
        target="tensorrt-rtx",
        dtype=None,
        limits=EngineLimits(),
        compute_capabilities=GPUS,
    )
    for kind in ("llm", "visual"):
        assert open_manifest(engine / kind, kind).dtype == "bfloat16"


@pytest.mark.parametrize(("kind", "attentions"), [("llm", 2), ("visual", 4)])
def test_every_attention_is_fused_and_has_its_lengths(
    slice_4b: Path, kind: str, attentions: int
) -> None:
    network = Network(kind, Checkpoint(slice_4b), EngineLimits(), "bfloat16")
    log = BuildLog(trt)
    builder = trt.Builder(log.sink)
    parsed = parse_network(trt, builder, log, network, {})
    definition = parsed.definition
    found = []
    for layer in map(definition.get_layer, range(definition.num_layers)):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            layer.__class__ = trt.IAttentionInputLayer
            found.append(layer.attention)
    assert len(found) == parsed.layers["ATTENTION_INPUT"] == attentions
    causal = trt.CausalMaskKind.LOWER_RIGHT if kind == "llm" else trt.CausalMaskKind.NONE
    for attention in found:
        assert attention.causal_kind == causal
        assert attention.key_value_lengths.dtype == trt.int32
        assert not attention.decomposable  # so the builds above prove a fused kernel
    assert parsed.layers["ROTARY_EMBEDDING"] == 2 * attentions
    if kind == "llm":
        assert parsed.layers["KV_CACHE_UPDATE"] == 2 * attentions


def test_a_network_without_a_fused_kernel_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgevlm.builder.target_tensorrt import TensorRTTarget

    monkeypatch.setattr(TensorRTTarget, "dtypes", ("float32",))
    with pytest.raises(EngineError, match="no fused kernel; use --dtype float16 or bfloat16"):
        build(
            tmp_path / "engine",
            target="tensorrt-rtx",
            dtype="float32",
            compute_capabilities=("8.9",),
        )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_stops_a_build_and_leaves_nothing(tmp_path: Path) -> None:
    pressed: list[str] = []

    def press(phase: str, fraction: float) -> None:
        if not pressed:
            pressed.append(phase)
            _thread.interrupt_main()
            time.sleep(0.3)

    config = BuildConfig(
        CHECKPOINT, tmp_path / "engine", "tensorrt-rtx", compute_capabilities=("8.9",)
    )
    with pytest.raises(BuildCancelled, match="build cancelled; nothing was written") as caught:
        build_engine(config, on_progress=press)
    assert caught.value.exit_code == 130
    assert list(tmp_path.iterdir()) == []
