"""The time-to-first-token benchmark runs at toy size and prunes what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgevlm.benchmarks.ttft import main


def test_runs_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "ttft.json"
    words = ["--shape", "tiny", "--device", "cpu", "--repeats", "1", "--output", str(output)]
    assert main(words) == 0
    whole, pruned = json.loads(output.read_text(encoding="utf-8"))["ttft"]
    visual = 5 * 4
    assert whole["tokens"] - pruned["tokens"] == round(0.4 * visual)
    assert pruned["reduction"] == pytest.approx(1 - pruned["ttft_ms"] / whole["ttft_ms"])
    assert "visionzip, 0.4 removed" in capsys.readouterr().out
