"""``edgevlm verify`` and the gate of ``edgevlm build``."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file, save_file

from edgevlm.builder import inspect_engine, tensorrt_network
from edgevlm.cli import build as build_command
from edgevlm.cli import inspect as inspect_command
from edgevlm.cli import verify as verify_command
from edgevlm.core import EngineError
from edgevlm.core.manifest_file import read_manifest
from edgevlm.runtime.engines import open_engines
from edgevlm.runtime.parity import STEPS, verify_engine
from edgevlm.runtime.parity_figures import Figures, compare
from edgevlm.runtime.parity_gate import ParityGate
from tests.fakes.tensorrt import FakeDevice

from .conftest import CHECKPOINT, LIMITS, Install, build
from .prompts import open_llm

SIZES = tuple(
    item
    for name, value in asdict(LIMITS).items()
    for item in (f"--{name.replace('_', '-')}", value)
)


def command(module: ModuleType, *arguments: object) -> int:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args([str(item) for item in arguments]))
    return status


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled checkpoint with one layer whose output float16 cannot hold."""
    path = Path(shutil.copytree(CHECKPOINT, tmp_path_factory.mktemp("big") / "checkpoint"))
    weights = load_file(path / "model.safetensors")
    weights["model.language_model.layers.2.mlp.down_proj.weight"] *= 3000
    save_file(weights, path / "model.safetensors")
    return path


def test_a_sound_engine_passes_and_its_manifests_say_how_well(
    thor_engine: Path, device: FakeDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Path(shutil.copytree(thor_engine, tmp_path / "engine"))
    checkpoint = ("--checkpoint", CHECKPOINT)
    assert command(verify_command, engine, *checkpoint, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    llm = read_manifest(engine / "llm").parity
    assert llm == {**report["parts"]["llm"], "accepted": 0.0}
    for name in ("prefill", "pruned_prefill", "chunked_prefill", "decode"):
        assert llm[f"{name}_cosine"] > 0.999
        assert 0 < llm[f"{name}_max_error"] < 0.5
    assert llm["greedy_agreement"] > 0.95
    assert 1 < llm["reference_peak"] < 65504
    visual = read_manifest(engine / "visual").parity
    assert visual is not None and visual["features_cosine"] > 0.999
    assert device.captures == 1 and device.replays == STEPS - 1
    assert command(inspect_command, engine, *checkpoint) == 0
    table = " ".join(capsys.readouterr().out.split())
    assert "parity passed" in table and "greedy_agreement=1" in table
    assert "compute capability 11.0" in table and "state ready" in table


def test_float16_overflow_is_caught_and_bfloat16_suggested(
    overflowing: Path, device: FakeDevice, tmp_path: Path
) -> None:
    told: list[str] = []
    gate = ParityGate(allow_unverified=False, tell=told.append)
    with pytest.raises(EngineError) as error:
        build(tmp_path / "engine", overflowing, verify=gate)
    text = str(error.value)
    assert "\n" not in text
    assert "float16 ends at 65504; build it with --dtype bfloat16" in text
    assert "--allow-unverified keeps it nevertheless" in text
    assert not (tmp_path / "engine").exists()
    build(tmp_path / "engine", overflowing, dtype="bfloat16", verify=gate)
    parity = read_manifest(tmp_path / "engine/llm").parity
    assert parity is not None and parity["passed"] == 1.0
    assert parity["reference_peak"] > 65504
    assert told == []


def test_an_engine_with_a_wrong_mask_is_refused(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TensorRT's parser makes of the graph when nobody corrects it."""
    monkeypatch.setattr(tensorrt_network, "_rewrite_attention", lambda *_: None)
    with pytest.raises(EngineError, match=r"ignores its input patch_lengths"):
        build(tmp_path / "engine")
    monkeypatch.setattr(tensorrt_network, "_require_used", lambda *_: None)
    engine = build(tmp_path / "engine")
    report = verify_engine(engine)
    assert any(line.startswith("decode: cosine") for line in report.problems)
    with pytest.raises(EngineError, match=r"failed its comparison .*edgevlm verify .*--allow-unv"):
        open_llm(engine)
    (problem,) = inspect_engine(engine / "llm").parts[0].problems
    assert "failed its comparison" in problem
    assert verify_engine(engine, accept=True).problems
    open_engines(engine / "llm", engine / "visual", None, None)


def test_the_build_command_compares_where_the_gpu_is(
    device: FakeDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ("--checkpoint", CHECKPOINT, "--output", tmp_path / "engine")
    assert command(build_command, *paths, "--target", "tensorrt", *SIZES) == 0
    assert "not compared" not in capsys.readouterr().err
    parity = read_manifest(tmp_path / "engine/llm").parity
    assert parity is not None and parity["passed"] == 1.0


def test_the_build_command_says_where_it_cannot_compare(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("tensorrt-rtx", "1.7.1.116", "9.0")
    paths = ("--checkpoint", CHECKPOINT, "--output", tmp_path / "engine")
    flags = ("--target", "tensorrt-rtx", "--sm", "89,120")
    assert command(build_command, *paths, *flags, *SIZES) == 0
    assert "no GPU of compute capability 8.9 or 12.0 is here" in capsys.readouterr().err
    assert read_manifest(tmp_path / "engine/llm").parity is None


def test_an_accepted_engine_is_kept_and_says_so(
    overflowing: Path, device: FakeDevice, tmp_path: Path
) -> None:
    told: list[str] = []
    engine = build(
        tmp_path / "engine",
        overflowing,
        verify=ParityGate(allow_unverified=True, tell=told.append),
    )
    assert told[0].startswith("kept although it fails")
    parity = read_manifest(engine / "llm").parity
    assert parity is not None and (parity["passed"], parity["accepted"]) == (0.0, 1.0)
    open_llm(engine)


def test_the_worst_row_counts() -> None:
    figures = Figures("float16")
    good, bad = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, -1.0])
    compare(figures, "decode", torch.stack((good, bad)), torch.stack((good, good)))
    compare(figures, "decode", good, good)
    assert figures.cosine["decode"] == pytest.approx(4 / 14)
    assert figures.error["decode"] == 4.0
    assert figures.problems() == ["decode: cosine 0.2857 is below 0.99"]


def test_tokens_that_disagree_too_often_are_a_problem() -> None:
    figures = Figures("bfloat16")
    rows = torch.eye(10)
    figures.count_agreement(rows, rows)
    assert figures.problems() == []
    figures.count_agreement(rows[:2].flip(0), rows[:2])
    assert figures.problems() == ["greedy tokens agree in 10 of 12 steps, fewer than 90%"]


def test_nan_in_bfloat16_is_not_called_an_overflow() -> None:
    figures = Figures("bfloat16")
    compare(figures, "prefill", torch.tensor([float("nan"), 1.0]), torch.ones(2))
    assert figures.problems() == ["NaN or infinite values in bfloat16: is the checkpoint damaged?"]


def test_an_engine_of_one_slot_is_compared_on_the_image(device: FakeDevice, tmp_path: Path) -> None:
    engine = build(tmp_path / "engine", limits=replace(LIMITS, max_batch=1))
    report = verify_engine(engine)
    assert report.problems == ()
    assert {"pruned_prefill_cosine", "decode_cosine"} <= set(report.figures["llm"])
    assert "features_cosine" in report.figures["visual"]
