"""The decode benchmark of a mixture of experts, at toy shapes on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from edgevlm.benchmarks.moe_decode import main, similarity_tables


def test_it_measures_with_and_without_re_routing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["moe_decode"])
    path = tmp_path / "out.json"
    assert main(["--toy", "--device", "cpu", "--repeats", "1", "--output", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [row["batch"] for row in rows] == [1, 1, 6, 6]
    for plain, routed in zip(rows[::2], rows[1::2], strict=True):
        assert plain["saved"] == 0 and plain["after"] == plain["active"]
        assert routed["after"] < routed["active"] == plain["active"]
    assert "SERE K=2 rho=0.5" in capsys.readouterr().out


def test_similarities_are_what_calibration_would_give() -> None:
    tables = similarity_tables(8, 16)
    assert torch.equal(tables, tables.transpose(1, 2))
    assert torch.equal(tables.diagonal(dim1=1, dim2=2), torch.ones(8, 16))
    assert float(tables.min()) >= 0 and float(tables.max()) <= 1
    means = tables.mean(dim=(1, 2))
    assert float(means[1]) > 0.8 and float(means[-1]) < 0.5
