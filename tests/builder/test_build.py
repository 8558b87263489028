"""``edgevlm build`` and ``edgevlm inspect`` as a user meets them."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from edgevlm.builder import STEPS, BuildConfig, build_engine, inspect_engine
from edgevlm.builder.target_torch import TorchTarget
from edgevlm.cli import build as build_command
from edgevlm.cli import inspect as inspect_command
from edgevlm.core import CheckpointError, EdgeVLMError, EngineError, UsageError
from edgevlm.core.limits import EngineLimits
from edgevlm.core.manifest_file import open_manifest
from edgevlm.models import parse_config
from edgevlm.models.checkpoint import Checkpoint
from tests.builder.checkpoints import SIDE_FILES, save_random
from tests.builder.conftest import Built


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "checkpoint"
    save_random(path, torch.bfloat16)
    return path


@pytest.fixture
def checkpoint(source: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(source, tmp_path / "tree" / "checkpoint"))


def build(checkpoint: Path, target: str = "torch", **options: object) -> Path:
    output = checkpoint.parent / "engine"
    build_engine(BuildConfig(checkpoint, output, target, **options))  # type: ignore[arg-type]
    return output


def command(module: ModuleType, *arguments: object) -> int:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args([str(item) for item in arguments]))
    return status


def test_a_torch_engine_is_manifests_and_small_files_in_the_checkpoints_dtype(
    checkpoint: Path,
) -> None:
    engine = build(checkpoint)
    names = {str(path.relative_to(engine)) for path in engine.rglob("*") if path.is_file()}
    assert names == {
        *(f"llm/{name}" for name in ("manifest.json", "config.json", "generation_config.json")),
        *(f"llm/{name}" for name in SIDE_FILES[:2]),
        *(f"visual/{name}" for name in ("manifest.json", "config.json", SIDE_FILES[2])),
    }
    manifest = open_manifest(engine / "llm", "llm")
    assert (manifest.dtype, manifest.backend.name) == ("bfloat16", "torch")
    assert manifest.parity is None
    cache = next(spec for spec in manifest.inputs if spec.name == "k_cache_0")
    assert cache.shape == ("batch", 2, 4096, 16)
    found = Checkpoint(manifest.checkpoint_dir(engine / "llm"))
    manifest.require_checkpoint(engine / "llm", found.directory, found.fingerprint)


def test_the_manifest_states_the_contract_and_the_profiles(full: Built) -> None:
    llm = open_manifest(full.engine / "llm", "llm")
    by_name = {spec.name: spec for spec in (*llm.inputs, *llm.outputs)}
    assert by_name["inputs_embeds"].shape == ("batch", "tokens", 64)
    cache = ("batch", 2, "kv_capacity", 16)
    assert by_name["k_cache_3"].shape == by_name["k_cache_3_out"].shape == cache
    assert (by_name["logits"].dtype, by_name["kv_lengths"].dtype) == ("float32", "int64")
    prefill, decode = llm.profiles
    assert (prefill.ranges["batch"].max, prefill.ranges["tokens"].max) == (1, 32)
    assert (decode.ranges["batch"].max, decode.ranges["tokens"].max) == (3, 1)
    assert decode.ranges["kv_capacity"].max == 48
    visual = open_manifest(full.engine / "visual", "visual")
    shapes = {spec.name: spec.shape for spec in (*visual.inputs, *visual.outputs)}
    assert shapes["patches"] == ("images", "4*visual_tokens", 1536)
    assert shapes["deepstack_2"] == ("images", "visual_tokens", 64)
    assert shapes["importance_k"] == ("images", 4, "4*visual_tokens", 12)
    assert llm.importance_layer == visual.importance_layer == 3  # the last of four
    assert set(visual.files) == {"model.onnx"}


def test_importance_may_be_left_out_or_taken_from_another_layer(checkpoint: Path) -> None:
    output = checkpoint.parent / "engine"
    flags = ("--checkpoint", checkpoint, "--output", output, "--target", "torch")
    for value, layer in (("none", None), ("1", 1), ("-3", 1)):
        assert command(build_command, *flags, "--importance-layer", value) == 0
        visual = open_manifest(output / "visual", "visual")
        assert visual.importance_layer == layer
        again = f"--importance-layer {'none' if layer is None else layer}"
        assert again in visual.rebuild_command(output / "visual")
        names = {spec.name for spec in visual.outputs}
        assert ("importance_q" in names) == ("importance_k" in names) == (layer is not None)


def test_a_tree_that_moves_keeps_its_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    build(checkpoint)
    moved = (tmp_path / "tree").rename(tmp_path / "elsewhere")
    assert inspect_engine(moved / "engine").usable


def test_steps_are_reported_in_order(checkpoint: Path) -> None:
    steps: list[str] = []
    build_engine(BuildConfig(checkpoint, checkpoint.parent / "engine", "torch"), steps.append)
    assert steps == list(STEPS)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"target": "coreml"},
            UsageError,
            "unknown build target 'coreml'.*onnxruntime, tensorrt, ",
        ),
        (
            {"target": "onnxruntime", "dtype": "bfloat16"},
            UsageError,
            "--dtype bfloat16 does not run on target onnxruntime; legal values: float32, float16",
        ),
        (
            {"limits": EngineLimits(max_kv_len=200_000)},
            UsageError,
            "max_kv_len is 200000 but .* was trained for 128000 positions",
        ),
        *(
            (
                {"importance_layer": layer},
                UsageError,
                f"--importance-layer {layer}: .* has layers 0 to 3, or -4 to -1 from the end; none",
            )
            for layer in (4, -5)
        ),
    ],
)
def test_a_wrong_option_is_named(
    checkpoint: Path, options: dict[str, object], error: type[EdgeVLMError], message: str
) -> None:
    longest = parse_config(json.loads((checkpoint / "config.json").read_text())).text
    assert longest.max_position_embeddings == 128_000
    with pytest.raises(error, match=message):
        build(checkpoint, **options)  # type: ignore[arg-type]
    assert not (checkpoint.parent / "engine").exists()


@pytest.mark.parametrize("name", ["config.json", *SIDE_FILES])
def test_a_missing_side_file_is_named_before_anything_is_exported(
    checkpoint: Path, name: str
) -> None:
    (checkpoint / name).unlink()
    steps: list[str] = []
    config = BuildConfig(checkpoint, checkpoint.parent / "engine", "torch")
    with pytest.raises(CheckpointError, match=f"{name}: no such file"):
        build_engine(config, steps.append)
    assert steps == list(STEPS[:1])
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == ["checkpoint"]


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left on the device; free some"), (errno.EACCES, "Permission denied")],
)
def test_a_file_system_that_refuses_is_one_line(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(TorchTarget, "write", refuse)
    with pytest.raises(EngineError, match=message) as caught:
        build(checkpoint)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == ["checkpoint"]


def test_the_build_command_prints_plain_lines_to_a_log(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = checkpoint.parent / "engine"
    flags = ("--target", "torch", "--max-batch", 2, "--max-kv-len", 4000)
    assert command(build_command, "--checkpoint", checkpoint, "--output", output, *flags) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"edgevlm build: {step}" for step in STEPS]
    assert printed.out.startswith(f"built {output} for torch in ")
    limits = open_manifest(output / "llm", "llm").limits
    assert limits == EngineLimits(max_batch=2, max_kv_len=4000)


def test_inspect_shows_a_sound_engine(full: Built, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(inspect_command, full.engine) == 0
    table = " ".join(capsys.readouterr().out.split())
    for text in (
        "onnxruntime (onnxruntime",
        "k_cache_0 .. k_cache_3 float32 [batch, 2, kv_capacity, 16]",
        "profile decode batch=1..3",
        "max_kv_len=48",
        "parity not measured",
        "ready: model files and checkpoint are those of the build",
    ):
        assert text in table
    assert command(inspect_command, full.engine / "visual", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["usable"] is True
    assert list(report["parts"]) == ["visual"]
    assert report["parts"]["visual"]["manifest"]["limits"]["max_image_tokens"] == 16


def move_away(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.parent / "gone")


def retrain(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [(move_away, "no such directory"), (retrain, "restore that checkpoint or rebuild: edgevlm")],
)
def test_inspect_names_a_checkpoint_problem(
    checkpoint: Path,
    damage: Callable[[Path], None],
    problem: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = build(checkpoint)
    damage(checkpoint)
    assert command(inspect_command, engine, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["usable"] is False
    for part in report["parts"].values():
        assert [problem in line for line in part["problems"]] == [True]


def test_inspect_takes_the_checkpoint_from_another_place(checkpoint: Path) -> None:
    engine = build(checkpoint)
    moved = checkpoint.rename(checkpoint.parent / "moved")
    assert not inspect_engine(engine).usable
    assert inspect_engine(engine, moved).usable


def test_inspect_of_something_else_says_what_it_wanted(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no manifest.json here, in llm/ or in visual/"):
        inspect_engine(tmp_path)


def test_another_backend_version_is_a_note_not_a_problem(checkpoint: Path) -> None:
    engine = build(checkpoint)
    for path in engine.rglob("manifest.json"):
        path.write_text(path.read_text().replace(torch.__version__, "0.1"))
    report = inspect_engine(engine)
    assert report.usable
    expected = (f"built with torch 0.1, {torch.__version__} is installed",)
    assert [part.notes for part in report.parts] == [expected] * 2
