"""The benchmarks at toy size on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from edgevlm.benchmarks import expert_parallel, macs
from edgevlm.benchmarks.checks import WrongResult


def test_macs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "macs.json"
    assert macs.main(["--device", "cpu", "--toy", "--repeats", "1", "--output", str(output)]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert {"command", "torch", "device", "router_skew"} <= set(found["environment"])
    assert any(row["rerouted"] > 0 for row in found["checks"])
    assert all(row["eager_ms"] > 0 for row in found["capacity"])
    assert next(row["padded_to"] for row in found["products"]) is None
    assert "ragged_over_padded" in capsys.readouterr().out


def test_wrong_kernels_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = macs.LAUNCHES

    def spoil(work) -> None:
        right[-1](work)
        work.moved.fill_(0)

    monkeypatch.setattr(macs, "LAUNCHES", (*right[:-1], spoil))
    router = macs.make_router(macs.TOY)
    with pytest.raises(WrongResult, match="decisions differ"):
        list(macs.check(macs.TOY, router, torch.device("cpu")))


def test_expert_parallel(tmp_path: Path) -> None:
    output = tmp_path / "ranks.json"
    arguments = ["--device", "cpu", "--toy", "--repeats", "1", "--output", str(output)]
    assert expert_parallel.main(arguments) == 0
    rows = json.loads(output.read_text(encoding="utf-8"))["layer"]
    assert [row["method"] for row in rows[::3]] == [
        "no limit",
        "Token Drop",
        "Expanded Drop",
        "MACS",
        "MACS, token limit",
    ]
    vanilla, *limited = (row["most_tokens"] for row in rows)
    assert vanilla == rows[0]["mean_tokens"] and min(limited) < vanilla
