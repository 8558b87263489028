"""The routing benchmark at toy size, through Triton's interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgevlm.benchmarks import routing
from edgevlm.plugins.sere import kernel

TOY = ["--device", "cpu", "--toy", "--repeats", "1"]


def test_toy_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "routing.json"
    assert routing.main([*TOY, "--output", str(output)]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert {"command", "torch", "triton", "device"} <= set(found["environment"])
    rows = found["routing"]
    assert [row["what"] for row in rows][:2] == ["kernel", "kernel, counts added"]
    assert all(row["eager_us"] > 0 and row["active_after"] <= row["active_before"] for row in rows)
    assert capsys.readouterr().out.splitlines()[-1].startswith("(copying the ids)")


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_wrong_kernel_is_not_timed(
    wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = kernel.reroute

    def broken(*given):
        found = right(*given)
        found[wrong][-1] += 1
        return found

    monkeypatch.setattr(kernel, "reroute", broken)
    assert routing.main(TOY) == 1
    assert f"the {('ids', 'counts')[wrong]} differ" in capsys.readouterr().err
