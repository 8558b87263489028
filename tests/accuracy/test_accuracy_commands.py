"""The accuracy commands from end to end, on the bundled checkpoint."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from edgevlm.accuracy.datasets import prepare_tiny
from edgevlm.accuracy.evidence import main as evidence
from edgevlm.cli.main import main as edgevlm
from edgevlm.cli.prepare_dataset import main as prepare_dataset
from edgevlm.cli.run_dart_accuracy import main as run_dart_accuracy


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_dart_against_pruning_off(
    engine: Path, tiny_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"--engine_dir {engine}/llm --multimodal_engine_dir {engine}/visual --device cpu"
    command += f" --dataset_file {tiny_data} --ratios 0.25 0.5 --limit 1"
    assert run_dart_accuracy(command.split()) == 0
    title, off, quarter, half, _, tasks, *rows = capsys.readouterr().out.splitlines()
    assert title == "=== DART accuracy on tiny_dataset.jsonl ==="
    assert off == "pruning off    100.00 % (7/7)"
    pattern = r"ratio 0\.\d+ +\d+\.\d\d % \(\d/7\)  [+\N{MINUS SIGN}]\d+\.\d \[.*\] points"
    assert re.fullmatch(pattern, quarter) and re.fullmatch(pattern, half)
    assert tasks.split() == ["off", "0.25", "0.5"]
    assert [row.split()[:2] for row in rows] == [
        [name, "100.0"] for name in ("shape", "colour", "count", "read", "where", "which", "table")
    ]


def test_the_published_commands_for_mmstar(
    engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(stream, "JPEG")
    question = "Which colour is it?\nOptions: A: red, B: blue, C: green, D: none of them"
    row = {"index": 0, "question": question, "image": stream.getvalue(), "answer": "A"}
    row |= {
        "category": "coarse perception",
        "l2_category": "image style",
        "meta_info": {"source": "x"},
    }
    rows = [row, {**row, "index": 1, "category": "math"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "mmstar.parquet")
    command = f"--dataset MMStar --data_dir {tmp_path} --output_dir {tmp_path}/out"
    assert prepare_dataset(command.split()) == 0
    command = f"--engine_dir {engine}/llm --multimodal_engine_dir {engine}/visual --device cpu"
    command += f" --dataset_file {tmp_path}/out/mmstar_dataset.json --ratios 0.25 0.5"
    assert run_dart_accuracy(command.split()) == 0
    off, *_ = capsys.readouterr().out.splitlines()[2:]
    assert re.fullmatch(r"pruning off +\d+\.\d\d % \([012]/2\)", off)


def test_evaluate_reports_and_resumes(
    engine: Path, tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "settings.json"
    one_pivot = {"reduction_ratio": 0.5, "pivot_image_tokens": 1}
    settings.write_text(json.dumps([{"name": "one pivot 0.5", "pruning": one_pivot}]))
    command = f"evaluate --engine {engine} --data {tiny_data} --device cpu --limit 1"
    command += f" --output {tmp_path}/out --settings {settings} --algorithms stride --ratios 0.5"
    assert edgevlm(command.split()) == 0
    first = capsys.readouterr()
    rows = [line.split()[0] for line in first.out.splitlines()]
    assert rows == ["setting", "unpruned", "stride", "one", "report:"]
    assert "21 of 21 answers" in first.err
    assert edgevlm(command.split()) == 0  # nothing is left: the reports are made again
    assert capsys.readouterr().out == first.out
    for path in (tmp_path / "out").iterdir():
        assert str(tmp_path) not in path.read_text(encoding="utf-8"), path.name


def test_one_bad_sample_is_a_warning_and_a_status(
    engine: Path, tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "images").symlink_to(tiny_data.parent / "images")
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(["{torn", *lines_of(tiny_data)[:2]]), encoding="utf-8")
    command = f"evaluate --engine {engine} --data {data} --output {tmp_path}/out --device cpu"
    assert edgevlm(command.split()) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("warning: data.jsonl: line 1: not JSON")
    assert "unpruned" in printed.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--algorithms nope", "unknown visual pruner 'nope'; known: dart"),
        ("--algorithms dart --ratios 1.5", "a ratio is a number from 0 to below 1"),
        ("--baseline nope", "nothing to evaluate"),
        ("--workers 0", "workers must be at least 1"),
        ("--max-tokens 0", "max_tokens must be at least 1"),
    ],
)
def test_wrong_flags_are_one_line(
    engine: Path,
    tiny_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: str,
    message: str,
) -> None:
    command = f"evaluate --engine {engine} --data {tiny_data} --output {tmp_path}/out {flags}"
    assert edgevlm(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_the_evidence_in_one_command(engine: Path, tmp_path: Path) -> None:
    command = f"--engine {engine} --work {tmp_path}/work --output {tmp_path}/doc.md --device cpu"
    command += " --samples 1 --algorithms dart random --ratios 0.5 --workers 2"
    assert evidence(command.split()) == 0
    text = (tmp_path / "doc.md").read_text(encoding="utf-8")
    assert "python -m edgevlm.accuracy.evidence --engine tiny --work work --output doc.md" in text
    assert "7 prompts, 1 of every task, on `tiny` (torch, float32, " in text
    assert "| `random 0.5` |" in text and "What these figures say, and what they do not" in text
    assert "below `random` at the same ratio.\n\n* 0.5 removed: " in text
    assert str(tmp_path) not in text
    # What was drawn does not depend on how many drew it.
    alone = prepare_tiny(tmp_path / "alone", samples=1, seed=0)
    drawn = tmp_path / "work/tiny-1"
    assert (drawn / alone.path.name).read_bytes() == alone.path.read_bytes()
    for image in (tmp_path / "alone/images").iterdir():
        assert (drawn / "images" / image.name).read_bytes() == image.read_bytes()
    also = f"{command} --also Again={tmp_path}/work/tiny-1"
    assert evidence(also.split()) == 0
    assert "\n## Again\n" in (tmp_path / "doc.md").read_text(encoding="utf-8")
    assert evidence(f"{command} --also nothing".split()) == 2
