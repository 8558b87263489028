"""The experts benchmark at toy size, through Triton's interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgevlm.benchmarks import experts

TOY = ["--device", "cpu", "--toy", "--repeats", "1"]


def test_toy_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "experts.json"
    assert experts.main([*TOY, "--output", str(output)]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert {"command", "triton", "copy_gb_s", "skew", "active_at_6"} <= set(found["environment"])
    assert len(found["checks"]) == 6
    whole = {row["what"] for row in found["times"] if row["gb_s"]}
    assert whole == {
        "kernels",
        "torch loop",
        *(f"transformers, {name}" for name in ("eager", "batched_mm", "grouped_mm")),
    }
    assert "kernels" in capsys.readouterr().out


def test_wrong_kernels_are_not_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = experts.kernel_experts
    monkeypatch.setattr(experts, "kernel_experts", lambda *given: right(*given) * 1.1)
    assert experts.main(TOY) == 1
    assert "relative error" in capsys.readouterr().err


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert experts.main(["--device", "cuda:99"]) == 2
    assert "device 'cuda:99' cannot be used" in capsys.readouterr().err
