"""The pruner benchmark at toy size, through Triton's interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from edgevlm.benchmarks import adaptive, dart, pruners
from edgevlm.benchmarks.checks import WrongResult
from edgevlm.benchmarks.prompts import PromptShape


def test_toy_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "pruners.json"
    arguments = ["--device", "cpu", "--toy", "--repeats", "1", "--output", str(output)]
    assert pruners.main(arguments) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert {"command", "torch", "triton", "device", "copy_gb_s"} <= set(found["environment"])
    checked = [row["check"].split(",")[0] for row in found["checks"]]
    assert checked == ["DART", "automatic ratio", "importance"]
    measured = [*found["pruning"], *found["importance"], *found["adaptive"]]
    assert all(row["eager_ms"] > 0 for row in measured)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("automatic ratio, torch operators")


def test_wrong_kernels_are_not_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = dart.dart_rows
    monkeypatch.setattr(dart, "dart_rows", lambda *given: right(*given).roll(1) - 1)
    assert pruners.main(["--device", "cpu", "--toy", "--repeats", "1"]) == 1
    assert "of the kept rows are others" in capsys.readouterr().err


def test_wrong_gathers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = dart.gather

    def wrong(*given):
        io = right(*given)
        io.deepstack[0, -1, -1] += 1
        return io

    monkeypatch.setattr(dart, "gather", wrong)
    with pytest.raises(WrongResult, match="deepstack are not those of the kept rows"):
        dart.check(PromptShape(1, 12, 16, 1), 0.5, (1, 1), torch.float16, torch.device("cpu"))


def test_wrong_shares_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = adaptive.count_distinct
    monkeypatch.setattr(adaptive, "count_distinct", lambda *given: right(*given) + 0.001)
    with pytest.raises(WrongResult, match="a share of distinct tokens is off by"):
        adaptive.check(PromptShape(2, 12, 16, 1), torch.float16, torch.device("cpu"))


@pytest.mark.parametrize("name", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pruners.main(["--device", name]) == 2
    assert f"device '{name}' cannot be used" in capsys.readouterr().err


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    arguments = ["--device", "cpu", "--toy", "--repeats", "1"]
    assert pruners.main([*arguments, "--output", str(tmp_path / "file" / "x.json")]) == 2
    assert "cannot write" in capsys.readouterr().err
