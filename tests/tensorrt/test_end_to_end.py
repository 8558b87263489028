"""The bundled request file through the stand-in for TensorRT: the text of ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgevlm.builder import BuildConfig, build_engine
from edgevlm.cli.llm_inference import main
from tests.fakes.tensorrt import FakeDevice

from .conftest import CHECKPOINT, LIMITS

REQUESTS = CHECKPOINT.parents[1] / "requests/scenes.json"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference") / "engine"
    build_engine(BuildConfig(CHECKPOINT, folder, "onnxruntime", "float32", LIMITS))
    return folder


def texts(engine: Path, tmp_path: Path, *flags: str) -> list[str]:
    output = tmp_path / "output.json"
    directories = ("--engineDir", engine / "llm", "--multimodalEngineDir", engine / "visual")
    files = ("--inputFile", REQUESTS, "--outputFile", output)
    assert main([*map(str, (*directories, *files)), *flags]) == 0
    document: dict[str, Any] = json.loads(output.read_text())
    return [response["output_text"] for response in document["responses"]]


@pytest.mark.parametrize(
    "flags", [(), ("--visualPrune", "--dartReductionRatio", "0.5")], ids=["full", "pruned"]
)
def test_answers_are_those_of_onnx_runtime(
    thor_engine: Path, reference: Path, device: FakeDevice, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    # Two slots for more than twice as many requests: slots are used again and again.
    small = (*flags, "--batchSize", "2")
    answers = texts(thor_engine, tmp_path, *small)
    assert len(answers) > 4
    assert answers == texts(reference, tmp_path, *small)
    assert device.captures == 2  # one graph per batch size, ever
    assert device.replays > device.captures
