"""Counting memory, and the command that shows it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from edgevlm.benchmarks.qwen3_vl_shapes import write_checkpoint
from edgevlm.builder import estimate
from edgevlm.cli import build as build_command
from edgevlm.cli import estimate as estimate_command
from edgevlm.core import EngineLimits, UsageError
from edgevlm.core.gpu import host_available_bytes
from edgevlm.models import Checkpoint
from tests.builder.checkpoints import save_sparse_4b

from .conftest import CHECKPOINT

RESULTS = CHECKPOINT.parents[2] / "docs/results/tensorrt-rtx-build.json"


@pytest.fixture(scope="module")
def sparse_4b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sparse") / "checkpoint"
    save_sparse_4b(path)
    return path


def command(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    estimate_command.add_arguments(parser)
    return estimate_command.run(parser.parse_args([str(item) for item in arguments]))


def test_figures_of_the_4b_shape(sparse_4b: Path) -> None:
    checkpoint = Checkpoint(sparse_4b)
    counted = estimate(checkpoint, "tensorrt-rtx", "bfloat16", EngineLimits())
    # Tied weights: the head is the embedding table, once in the file, once in the engine.
    assert counted.weights == pytest.approx(checkpoint.nbytes, rel=0.001)
    assert counted.disk == counted.weights
    assert counted.embeddings == 151_936 * 2560 * 2
    assert counted.kv_cache == 36 * 2 * 8 * 128 * 2 * 4096 * 4
    assert counted.build_mapped == counted.weights
    parts = (counted.weights, counted.embeddings, counted.kv_cache, counted.activations)
    assert counted.running == sum(parts) + counted.buffers + counted.device_base
    converted = estimate(checkpoint, "tensorrt-rtx", "float16", EngineLimits())
    llm = (counted.weights - converted.build_peak + counted.build_peak) / counted.weights
    assert 0 < llm < 0.2  # what is converted is the language model: nine tenths of the weights
    lean = estimate(checkpoint, "onnxruntime", "float32", EngineLimits())
    assert lean.build_peak < 10**9 and lean.disk == 0


@pytest.mark.parametrize("case", ["2b bfloat16", "4b-slice bfloat16", "4b-slice float16"])
def test_measured_builds_are_predicted(tmp_path: Path, case: str) -> None:
    """What docs/results says was measured, against what is counted now."""
    measured = {
        f"{row['checkpoint']} {row['dtype']}": row["peak_bytes"]
        for row in json.loads(RESULTS.read_text(encoding="utf-8"))["builds"]
    }
    shape, dtype = case.split()
    if shape == "2b":
        write_checkpoint(tmp_path / "c", "2b", sparse=True)
    else:
        write_checkpoint(tmp_path / "c", "4b", layers=2, depth=4, sparse=True)
    counted = estimate(Checkpoint(tmp_path / "c"), "tensorrt-rtx", dtype, EngineLimits())
    assert counted.build_peak == pytest.approx(measured[case], rel=0.15)


@pytest.mark.parametrize(
    ("device", "status", "line"),
    [("thor", 0, "fits Jetson AGX Thor"), ("orin-nano-8", 1, "does not fit: running takes")],
)
def test_the_verdict(
    sparse_4b: Path, device: str, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--checkpoint", sparse_4b, "--target", "tensorrt", "--device", device)
    assert command(*arguments) == status
    assert line in capsys.readouterr().out
    assert command(*arguments, "--json") == status
    report = json.loads(capsys.readouterr().out)
    assert report["fits"] is (status == 0)
    assert report["running"] > report["weights"] > 8e9


def test_a_smaller_cache_makes_it_fit(sparse_4b: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--checkpoint", sparse_4b, "--target", "tensorrt", "--device", "orin-nx-16")
    long = ("--max-kv-len", 32_768, "--max-input-len", 3072)
    assert command(*arguments, *long) == 1
    assert "lower --max-kv-len, --max-batch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--device", "tx2"), "--device 'tx2' is not known; known: thor, orin-agx-64"),
        (("--device", "thor"), r"RTX does not run on Jetson AGX Thor .*use --target tensorrt"),
        (("--dtype", "float32"), "float32 does not run on target tensorrt-rtx; legal values"),
    ],
)
def test_wrong_questions(flags: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command("--checkpoint", CHECKPOINT, "--target", "tensorrt-rtx", *flags)


def test_available_memory_counts_what_the_kernel_would_give_up(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 8000 kB\nMemFree: 100 kB\nMemAvailable: 6000 kB\nHugePages: 0\n")
    assert host_available_bytes(meminfo) == 6000 * 1024


def test_a_build_warns_before_it_begins_if_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_command, "host_available_bytes", lambda: 10**8)
    parser = argparse.ArgumentParser()
    build_command.add_arguments(parser)
    flags = ("--checkpoint", CHECKPOINT, "--output", tmp_path / "engine", "--target", "torch")
    arguments = parser.parse_args([*map(str, flags), "--max-kv-len", "3072"])
    assert build_command.run(arguments) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert "this build takes about 880.8 MB of memory and 100.0 MB are available" in first
