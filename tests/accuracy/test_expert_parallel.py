"""An evaluation whose experts are on several ranks gives the answers of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgevlm.accuracy.datasets import prepare_tiny
from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.core import EngineLimits

ROOT = Path(__file__).parents[2]
LIMITS = EngineLimits(max_input_len=320, max_kv_len=400, max_batch=4, max_image_tokens=256)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moe") / "tiny-moe"
    checkpoint = ROOT / "examples/checkpoints/tiny-moe"
    build_engine(BuildConfig(checkpoint, folder, "torch", "float32", LIMITS))
    return folder


def test_two_ranks_answer_as_one(engine: Path, tmp_path: Path) -> None:
    prepare_tiny(tmp_path / "data", 1, 0, 1)
    settings = tmp_path / "settings.json"
    macs = {"macs": {"capacity_factor": 0.5}}
    settings.write_text(json.dumps([{"name": "macs", "routing": macs}]))
    words = ["evaluate", "--engine", str(engine), "--settings", str(settings), "--device", "cpu"]
    words += ["--data", str(tmp_path / "data/tiny_dataset.jsonl"), "--ratios"]
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    runs = {"one": [], "two": launch}
    found = {}
    for name, before in runs.items():
        output = tmp_path / name
        command = [sys.executable, "-m", *before, "edgevlm.cli.main", *words, "-o", str(output)]
        command += ["--expert-parallel"] if before else []
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        lines = (output / "answers.jsonl").read_text().splitlines()
        answers = map(json.loads, lines)
        found[name] = {(a["setting"], a["sample"]): a["text"] for a in answers}
        assert (
            json.loads((output / "configuration.json").read_text())["ranks"] == len(before[:1]) + 1
        )
    assert {k: v for k, v in found["two"].items() if k[0] == "unpruned"} == {
        k: v for k, v in found["one"].items() if k[0] == "unpruned"
    }
    assert found["two"].keys() == found["one"].keys()
