"""Data sets in the forms they are published in, accepted unchanged."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from edgevlm.accuracy.datasets import Sample, prepare_published, read_dataset
from edgevlm.accuracy.datasets.mmstar import options_in
from edgevlm.cli.prepare_dataset import main
from edgevlm.core import UsageError
from edgevlm.runtime import ImagePart, TextPart, read_request_file

QUESTION = "Which colour is it?\nOptions: A: red, light, B: blue, C: green, D: none of them"


def picture(colour: str, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (64, 64), colour).save(stream, kind)
    return stream.getvalue()


def mmstar_row(index: int, **changes: Any) -> dict[str, Any]:
    row = {
        "index": index,
        "question": QUESTION,
        "image": picture("red", "JPEG"),
        "answer": "A",
        "category": "coarse perception",
        "l2_category": "image scene and topic",
        "meta_info": {"source": "MMBench", "split": "val", "image_path": f"images/{index}.jpg"},
    }
    return {**row, **changes}


def mmmu_row(number: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"validation_Art_Theory_{number}",
        "question": "Compare <image 1> with <image 2>: which is older?",
        "options": "['the first', \"the second's\", '<image 1>', 'neither']",
        "explanation": "",
        "img_type": "['Paintings']",
        "answer": "B",
        "topic_difficulty": "Medium",
        "question_type": "multiple-choice",
        "subfield": "Art History",
        **{f"image_{i}": None for i in range(1, 8)},
    }
    row["image_1"] = {"bytes": picture("red"), "path": "a.png"}
    row["image_2"] = {"bytes": picture("blue"), "path": "b.png"}
    return {**row, **changes}


def parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def texts(sample: Sample) -> list[str]:
    """The parts of a user's message; an image is ``"<image>"``."""
    return [
        part.text if isinstance(part, TextPart) else "<image>" for part in sample.messages[-1].parts
    ]


def pixels(sample: Sample, place: int = 0) -> tuple[int, ...]:
    parts = [part for part in sample.messages[-1].parts if isinstance(part, ImagePart)]
    with Image.open(str(parts[place].source)) as image:
        return image.convert("RGB").getpixel((9, 9))  # type: ignore[return-value]


def test_mmstar_parquet(tmp_path: Path) -> None:
    parquet(tmp_path / "in/mmstar.parquet", [mmstar_row(0), mmstar_row(1, answer="D")])
    made = prepare_published("MMStar", tmp_path / "in", tmp_path / "out")
    assert made.path.name == "mmstar_dataset.jsonl" and made.problems == ()
    first, second = read_dataset(made.path).samples
    assert (first.id, first.task, first.subtask) == (
        "0",
        "coarse perception",
        "image scene and topic",
    )
    assert first.scoring == "choice" and first.answers == ("A",) and second.answers == ("D",)
    assert first.choices == ("red, light", "blue", "green", "none of them")
    assert texts(first) == [
        "<image>",
        f"{QUESTION}\nAnswer with the option's letter from the given choices directly.",
    ]
    assert pixels(first)[0] > 250
    # The bytes are those that were published.
    (file, *_) = sorted((tmp_path / "out/images").iterdir())
    assert file.read_bytes() == picture("red", "JPEG")


def test_the_request_file_beside_it_is_answered_by_llm_inference(tmp_path: Path) -> None:
    parquet(tmp_path / "mmstar.parquet", [mmstar_row(0)])
    prepare_published("MMStar", tmp_path, tmp_path / "out")
    path = tmp_path / "out/mmstar_dataset.json"
    (request,) = read_request_file(path).requests
    assert not isinstance(request, Exception) and request.sampling.greedy
    (sample,) = read_dataset(path).samples  # and is a data set itself
    assert (sample.id, sample.task, sample.answers) == ("0", "coarse perception", ("A",))
    assert sample.scoring == "choice" and texts(sample)[0] == "<image>"


def table(path: Path, rows: list[dict[str, str]]) -> None:
    lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_mmstar_table_with_base64_images(tmp_path: Path) -> None:
    row = {
        "index": "7",
        "image": base64.b64encode(picture("blue")).decode(),
        "question": "Which colour?",
        "answer": "B",
        "category": "logical reasoning",
        "l2_category": "",
        **{"A": "red", "B": "blue", "C": "nan"},
    }
    table(tmp_path / "MMStar.tsv", [row])
    (sample,) = read_dataset(prepare_published("MMStar", tmp_path, tmp_path / "out").path).samples
    assert sample.choices == ("red", "blue") and sample.subtask == ""
    assert texts(sample)[1].startswith("Which colour?\nA. red\nB. blue\nAnswer with")
    assert pixels(sample) == (0, 0, 255)


def test_options_that_a_question_does_not_spell_out_in_order_are_left_alone() -> None:
    assert options_in("Options: A: x, B: y") == ("x", "y")
    assert options_in("no such word: A: x, B: y") == ()
    assert options_in("Options: B: x, A: y") == ()


def test_mmmu_by_subject_with_images_where_their_marks_are(tmp_path: Path) -> None:
    free = mmmu_row(
        2,
        question="How many?",
        options="[]",
        answer="['4', 'four']",
        question_type="open",
    )
    parquet(tmp_path / "Art_Theory/validation-00000-of-00001.parquet", [mmmu_row(1), free])
    parquet(tmp_path / "Art_Theory/test-00000-of-00001.parquet", [mmmu_row(9, answer="?")])
    made = prepare_published("MMMU", tmp_path, tmp_path / "out")
    assert made.problems == ()
    closed, open_ended = read_dataset(made.path).samples
    assert (closed.task, closed.subtask) == ("Art_Theory", "Art History")
    assert texts(closed) == [
        "Compare",
        "<image>",
        "with",
        "<image>",
        ": which is older?\nA. the first\nB. the second's\nC.",
        "<image>",
        "D. neither\nAnswer with the option's letter from the given choices directly.",
    ]
    assert [pixels(closed, i) for i in range(3)] == [(255, 0, 0), (0, 0, 255), (255, 0, 0)]
    assert (open_ended.scoring, open_ended.answers) == ("free", ("4", "four"))
    assert texts(open_ended)[:2] == ["<image>", "<image>"]


def test_mmmu_table_keeps_to_its_split(tmp_path: Path) -> None:
    row = {
        "index": "1",
        "id": "validation_Math_3",
        "image": str([base64.b64encode(picture(c)).decode() for c in ("red", "blue")]),
        "question": "See <image 2> and <image 1>.",
        "answer": "A",
        "category": "Math",
        "split": "validation",
        **{"A": "1", "B": "2"},
    }
    table(tmp_path / "MMMU_DEV_VAL.tsv", [row, {**row, "id": "dev_Math_1", "split": "dev"}])
    (sample,) = read_dataset(prepare_published("MMMU", tmp_path, tmp_path / "out").path).samples
    assert [pixels(sample, i) for i in range(2)] == [(0, 0, 255), (255, 0, 0)]


@pytest.mark.parametrize("form", ["data.jsonl", "data.json"])
def test_rag_igbench(tmp_path: Path, form: str) -> None:
    entry = {
        "id": 12,
        "query": "Where is it?",
        "documents": ["one", "two"],
        "images": [["12/1/IMG#1"], ["12/2/IMG#2"]],
        "gt_answer": "here ![x](IMG#2)",
        "category": ["Travel", "what-is"],
    }
    for place, colour in ((1, "red"), (2, "blue")):
        folder = tmp_path / f"images/12/{place}"
        folder.mkdir(parents=True)
        (folder / f"IMG#{place}.jpg").write_bytes(picture(colour, "JPEG"))
    (tmp_path / form).write_text(json.dumps(entry if form.endswith("l") else [entry]))
    (sample,) = read_dataset(
        prepare_published("RAG-IGBench", tmp_path, tmp_path / "out").path
    ).samples
    assert (sample.id, sample.task, sample.subtask) == ("12", "what-is", "Travel")
    assert (sample.scoring, sample.answers) == ("none", ("here ![x](IMG#2)",))
    assert texts(sample)[1:] == ["DOC#1\none", "IMG#1", "<image>", "DOC#2\ntwo", "IMG#2", "<image>"]


def test_bad_rows_are_named_and_the_others_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        mmstar_row(0),
        mmstar_row(1, image=b"no image at all"),
        mmstar_row(2, question=" "),
        mmstar_row(3, image=None),
        mmstar_row(4),
    ]
    parquet(tmp_path / "in/mmstar.parquet", rows)
    command = f"--dataset MMStar --data_dir {tmp_path}/in --output_dir {tmp_path}/out"
    assert main(command.split()) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("2 samples: ")
    lines = printed.err.splitlines()
    assert [line.split(": ")[1:3] for line in lines] == [
        ["mmstar.parquet", "row 2"],
        ["mmstar.parquet", "row 3"],
        ["mmstar.parquet", "row 4"],
    ]
    assert "an image cannot be decoded" in lines[0] and "fetch it again" in lines[0]
    assert "column 'question' is missing or empty" in lines[1]
    assert "column 'image' holds no image" in lines[2]


def test_mismatched_rows_of_mmmu_say_what_is_wrong(tmp_path: Path) -> None:
    rows = [
        mmmu_row(1, question="See <image 5>."),
        mmmu_row(2, answer="?"),
        mmmu_row(3, options="[not python"),
        mmmu_row(4),
    ]
    parquet(tmp_path / "validation-0.parquet", rows)
    problems = list(map(str, prepare_published("MMMU", tmp_path, tmp_path / "out").problems))
    assert [problem.split(": ")[1] for problem in problems] == ["row 1", "row 2", "row 3"]
    for problem, words in zip(problems, ("<image 5>", "no answer", "not a list"), strict=True):
        assert words in problem


def test_what_must_be_fetched_first_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"--dataset MMMU --data_dir {tmp_path} --output_dir {tmp_path}/out"
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "fetch it first: hf download MMMU/MMMU --repo-type dataset --local-dir" in line


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "mmstar.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(UsageError, match=r"mmstar\.parquet: not a parquet file"):
        prepare_published("MMStar", tmp_path, tmp_path / "out")
    (tmp_path / "mmstar.parquet").unlink()
    (tmp_path / "MMStar.tsv").write_text("index\tquestion\n1\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"no usable sample .*MMStar\.tsv: line 2: its fields"):
        prepare_published("MMStar", tmp_path, tmp_path / "out")
