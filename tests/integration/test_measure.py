"""The accuracy command, on very few prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgevlm.accuracy.tiny.measure import main


def test_pruners_compared_in_one_command(engines: dict[str, Path], tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    main(
        f"--engine {engines['torch']} --device cpu --algorithms visionzip downsample"
        f" --ratios 0.5 --images 1 --output {report}".split()
    )
    text = report.read_text(encoding="utf-8")
    assert "    python -m edgevlm.accuracy.tiny.measure --engine" in text
    rows = [line for line in text.splitlines() if line.startswith(("| `", "| ("))]
    assert rows[0] == "| (not pruned) |" + " 100.0 |" * 9
    assert sorted(row.split("|")[1].strip() for row in rows[1:]) == ["`downsample`", "`visionzip`"]
    assert all(row.endswith(("| 50.0 |", "| 46.9 |")) for row in rows[1:])


def test_a_wrong_algorithm_is_named_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="error: unknown visual pruner 'nope'; known: dart"):
        main(f"--engine {tmp_path} --algorithms nope --ratios 0.5 --output {tmp_path}/r.md".split())
