"""The command from files to report, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from edgevlm.accuracy.rag_igbench.__main__ import main
from edgevlm.accuracy.rag_igbench.data import load_image
from edgevlm.core import UsageError

SAMPLES = [
    {"id": 1, "images": [["1/1/IMG#1", "1/1/IMG#2"], ["1/2/IMG#3"]], "gt_answer": "x![](IMG#2)"},
    {"id": "two", "images": [["2/1/IMG#1"]], "gt_answer": "y![](IMG#1)"},
    {"id": 3, "images": [[]], "gt_answer": "z"},
]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def run(tmp_path: Path, samples: list[Any], answers: list[Any], *extra: str) -> int:
    references = lines(tmp_path / "data.jsonl", samples)
    given = lines(tmp_path / "answers.jsonl", answers)
    return main(["--references", str(references), "--answers", str(given), *extra])


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [
        {"id": "1", "model_answer": '{"answer": "x![](IMG#2)"}'},
        {"id": "two", "model_answer": '{"answer": "x![](IMG#2)"}'},
    ]
    output = tmp_path / "scores.json"
    assert run(tmp_path, SAMPLES, answers, "--output", str(output)) == 0
    printed = capsys.readouterr().out
    assert "edit_distance        100.00" in printed
    assert "integrated_repo     not computed" in printed
    document = json.loads(output.read_text())
    assert document["counts"] == {
        "scored": 1,
        "invalid format": 0,
        "hallucination": 1,
        "undefined": 0,
        "no answer": 1,
    }
    assert [s["outcome"] for s in document["samples"]] == ["scored", "hallucination", "no answer"]
    assert document["samples"][0]["edit_distance"] == 1.0


@pytest.mark.parametrize(
    ("samples", "answers", "message"),
    [
        (["x"], [], "line 1: must be an object"),
        ([SAMPLES[0], SAMPLES[0]], [], "line 2.id: '1' is there twice"),
        ([{**SAMPLES[0], "id": 1.5}], [], "line 1.id: must be a string or an integer"),
        ([{"id": 1, "images": []}], [], 'line 1: "gt_answer" is missing'),
        ([{**SAMPLES[0], "images": ["a"]}], [], "line 1.images[0]: must be a list"),
        (SAMPLES, [{"id": 9, "model_answer": ""}], "line 1.id: '9' is no sample"),
        (SAMPLES, [{"id": 1}], 'line 1: "model_answer" is missing'),
        (SAMPLES, 2 * [{"id": 1, "model_answer": ""}], "line 2.id: '1' is there twice"),
    ],
)
def test_wrong_files(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    samples: list[Any],
    answers: list[Any],
    message: str,
) -> None:
    assert run(tmp_path, samples, answers) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, SAMPLES, [], "--image-model", "a:b") == 2
    assert "belong together" in capsys.readouterr().err
    assert main(["--references", str(tmp_path / "none.jsonl"), "--answers", "x"]) == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err
    assert main(["--references", "data.csv", "--answers", "x"]) == 2
    assert "data.csv: must be a file of .jsonl or .json" in capsys.readouterr().err
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{\n")
    assert main(["--references", str(broken), "--answers", "x"]) == 2
    assert "broken.jsonl: line 1: not JSON" in capsys.readouterr().err


def test_a_list_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = tmp_path / "data.json"
    references.write_text(json.dumps(SAMPLES))
    answers = lines(tmp_path / "answers.jsonl", [])
    assert main(["--references", str(references), "--answers", str(answers)]) == 0
    assert "no answer                 3" in capsys.readouterr().out


def test_images(tmp_path: Path) -> None:
    Image.new("L", (2, 3)).save(tmp_path / "IMG#1.jpg")
    (tmp_path / "IMG#2.png").write_bytes(b"no image")
    assert (load_image(tmp_path, "IMG#1").size, load_image(tmp_path, "IMG#1.jpg").mode) == (
        (2, 3),
        "RGB",
    )
    with pytest.raises(UsageError, match="cannot be read"):
        load_image(tmp_path, "IMG#2")
    with pytest.raises(UsageError, match="no such file, with or without"):
        load_image(tmp_path, "IMG#3")
