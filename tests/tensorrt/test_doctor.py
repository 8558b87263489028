"""``edgevlm doctor``."""

from __future__ import annotations

import argparse
import json
import sys

import pytest

from edgevlm.cli import doctor
from edgevlm.core import gpu as gpu_module
from edgevlm.core.gpu import Gpu, free_gpu_bytes

from .conftest import Install


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    assert doctor.run(parser.parse_args(["--json"])) == 0
    return {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_machine_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "present_gpu", lambda: None)
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    found = findings(capsys)
    for subject in ("GPU", "TensorRT", "target tensorrt"):
        assert found[subject]["state"] == "missing"
    assert all(f["remedy"] for f in found.values() if f["state"] == "missing")
    assert "builds here with --sm, runs elsewhere" in found["target tensorrt-rtx"]["text"]
    assert found["target onnxruntime"]["state"] == "ok"


def test_a_thor_with_its_jetpack(
    install: Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install()
    thor = Gpu("NVIDIA Thor", "11.0", 2**37, unified=True)
    monkeypatch.setattr(doctor, "present_gpu", lambda: thor)
    monkeypatch.setattr(gpu_module.torch.cuda, "memory_reserved", lambda: 0)
    found = findings(capsys)
    assert "Jetson Thor; JetPack 7.2" in found["GPU"]["text"]
    assert "mixture of experts (layer)" in found["TensorRT"]["text"]
    assert "shared with the GPU, which can have" in found["memory"]["text"]
    assert found["target tensorrt"]["text"] == "builds and runs here"


def test_an_old_jetpack(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(version="10.3.0")
    found = findings(capsys)
    assert "JetPack 6.1 or 6.2" in found["TensorRT"]["text"]
    assert "install JetPack 7.2" in found["TensorRT"]["remedy"]
    assert found["target tensorrt"]["state"] == "missing"


def test_free_memory_of_a_gpu_that_shares_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_module, "host_available_bytes", lambda: 100 * 2**30)
    monkeypatch.setattr(gpu_module.torch.cuda, "memory_reserved", lambda: 90 * 2**30)
    board = Gpu("NVIDIA Thor", "11.0", 122 * 2**30, unified=True)
    # What the kernel says may lag behind what this process has just taken.
    assert free_gpu_bytes(board) == (122 - 90) * 2**30 - gpu_module.UNIFIED_RESERVE
