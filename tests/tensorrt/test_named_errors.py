"""Everything that can go wrong between a checkpoint and a running engine, in one line each."""

from __future__ import annotations

import _thread
import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from edgevlm.builder import inspect_engine, target_tensorrt
from edgevlm.builder.tensorrt_progress import BuildCancelled
from edgevlm.core import CheckpointError, EdgeVLMError, EngineError, UsageError
from edgevlm.core.manifest_file import read_manifest
from edgevlm.core.tensorrt_library import load_tensorrt
from edgevlm.runtime.engines import tensorrt_device
from edgevlm.runtime.engines.tensorrt_program import TensorRTProgram
from tests.fakes.tensorrt import FakeDevice

from .conftest import CHECKPOINT, VERSION, Install, build
from .prompts import open_llm


def one_line(error: pytest.ExceptionInfo[EdgeVLMError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_an_engine_of_another_version_is_not_loaded(thor_engine: Path, install: Install) -> None:
    install(version="11.4.1")
    with pytest.raises(EngineError) as error:
        open_llm(thor_engine)
    text = one_line(error)
    assert f"built with TensorRT {VERSION}, but 11.4.1 is installed" in text
    assert "rebuild: edgevlm build --checkpoint" in text and "--target tensorrt" in text
    (part,) = inspect_engine(thor_engine / "llm").parts
    assert part.problems == (text,)


def test_an_engine_for_another_gpu_is_not_loaded(thor_engine: Path, install: Install) -> None:
    install(capability="8.7")
    with pytest.raises(EngineError) as error:
        open_llm(thor_engine)
    assert "built for compute capability 11.0, but this GPU has 8.7" in one_line(error)
    assert not inspect_engine(thor_engine).usable


def test_an_edited_plan_is_not_loaded(
    thor_engine: Path, device: FakeDevice, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(thor_engine, tmp_path / "copy"))
    with (copy / "llm/model.plan").open("r+b") as file:
        file.seek(1000)
        file.write(b"?")
    with pytest.raises(EngineError) as error:
        open_llm(copy)
    assert "model.plan was changed after the build" in one_line(error)


def test_a_missing_library_says_where_it_comes_from(
    device: FakeDevice, thor_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    for attempt in (lambda: open_llm(thor_engine), lambda: build(tmp_path / "engine")):
        with pytest.raises(UsageError) as error:
            attempt()
        text = one_line(error)
        assert text.startswith("TensorRT cannot be imported")
        assert "JetPack's own package" in text and "pip install tensorrt" in text
    (part,) = inspect_engine(thor_engine / "llm").parts
    assert part.problems == ()  # only this machine lacks something
    assert "TensorRT cannot be imported" in part.notes[0]


@pytest.mark.parametrize(
    ("version", "jetpack"),
    [("10.3.0.30", "6.1 or 6.2"), ("10.13.3.9", "7.0 or 7.1")],
)
def test_an_old_version_is_refused_with_the_jetpack_to_install(
    install: Install, tmp_path: Path, version: str, jetpack: str
) -> None:
    install(version=version)
    with pytest.raises(UsageError) as error:
        build(tmp_path / "engine")
    text = one_line(error)
    assert f"TensorRT {version} (that of JetPack {jetpack}) is too old" in text
    assert "needs 10.16 or newer; on a Jetson install JetPack 7.2 or newer" in text


def test_orin_needs_the_release_that_knows_it(install: Install, tmp_path: Path) -> None:
    install(version="10.16.0.72", capability="8.7")
    with pytest.raises(UsageError, match=r"10.16.0.72 .*is too old.* needs 10.16.1 or newer"):
        build(tmp_path / "engine")


def test_without_a_gpu_tensorrt_neither_builds_nor_runs(
    thor_engine: Path, device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with pytest.raises(UsageError, match="TensorRT cannot be imported"):
        build(tmp_path / "engine")
    with pytest.raises(UsageError, match="needs an NVIDIA GPU and torch sees none here"):
        tensorrt_device.open_device(None)


def test_tensorrt_builds_for_the_gpu_that_is_here(device: FakeDevice, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--sm 8.7: .* Fake GPU with 11.0; leave --sm out"):
        build(tmp_path / "engine", compute_capabilities=("8.7",))
    build(tmp_path / "engine", compute_capabilities=("11.0",))


def test_rtx_needs_to_know_the_gpu(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("tensorrt-rtx", "1.7.1.116", "9.0")
    with pytest.raises(UsageError, match=r"capability 9.0; legal values of --sm: 80, 86, 89, 12"):
        build(tmp_path / "engine", target="tensorrt-rtx")
    monkeypatch.setattr(target_tensorrt, "present_gpu", lambda: None)
    with pytest.raises(UsageError, match="name yours with --sm, for example --sm 89,120"):
        build(tmp_path / "engine", target="tensorrt-rtx")


def test_a_cancelled_build_leaves_nothing(device: FakeDevice, tmp_path: Path) -> None:
    pressed: list[str] = []

    def press(phase: str, fraction: float) -> None:
        if not pressed:
            pressed.append(phase)
            _thread.interrupt_main()
            time.sleep(0.3)

    with pytest.raises(BuildCancelled) as error:
        build(tmp_path / "engine", on_progress=press)
    assert one_line(error).endswith("build cancelled; nothing was written")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-rtx"])
def test_a_full_disk_is_named(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    install(target, VERSION if target == "tensorrt" else "1.7.1.116", "12.0")
    monkeypatch.setattr(target_tensorrt, "PLAN_NAME", "/dev/full")
    with pytest.raises(EngineError) as error:
        build(tmp_path / "engine", target=target)
    assert "no space left on the device; free some or move --output" in one_line(error)
    assert list(tmp_path.iterdir()) == []


def test_another_architecture_is_named(device: FakeDevice, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(CHECKPOINT, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "llava"}))
    with pytest.raises(CheckpointError) as error:
        build(tmp_path / "engine", copy)
    assert "architecture 'llava' is not supported; supported: qwen3_vl" in one_line(error)


def test_the_rebuild_command_names_the_gpus(install: Install, tmp_path: Path) -> None:
    install("tensorrt-rtx", "1.7.1.116", "12.0")
    engine = build(tmp_path / "engine", target="tensorrt-rtx", compute_capabilities=("8.9", "12.0"))
    command = read_manifest(engine / "llm").rebuild_command(engine / "llm")
    assert "--target tensorrt-rtx" in command and "--sm 89,120" in command


def test_the_real_library_without_a_driver_is_one_line(tmp_path: Path) -> None:
    """What TensorRT for RTX itself says here, through the code that loads a plan."""
    engine = build(tmp_path / "engine", target="tensorrt-rtx", compute_capabilities=("8.9",))
    with pytest.raises(EngineError) as error:
        TensorRTProgram(load_tensorrt("tensorrt-rtx"), engine / "llm/model.plan", FakeDevice("8.9"))
    assert "TensorRT for RTX" in one_line(error) and "cannot load it" in one_line(error)
