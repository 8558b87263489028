"""Reading prepared data sets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edgevlm.accuracy.datasets import prepare_tiny, read_dataset
from edgevlm.core import UsageError


def line(**changes: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": "1",
        "task": "t",
        "content": [{"type": "text", "text": "Why?"}],
        "answers": ["A"],
        "scoring": "choice",
        "choices": ["yes", "no"],
    }
    return {**entry, **changes}


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{torn", "line 2: not JSON"),
        ("[]", "line 2: must be an object"),
        (line(id="1"), "line 2: id '1' is taken by line 1"),
        (line(id="2", answers=[]), "line 2: answers is empty"),
        (line(id="2", answers=["C"]), "line 2: the answer 'C' is not one of the letters A to B"),
        (line(id="2", scoring="bleu"), "line 2: scoring 'bleu' is unknown; known: anls, choice"),
        (line(id="2", max_tokens=0), "line 2: max_tokens must be at least 1"),
        (line(id="2", content=[]), "line 2: content: a message needs 1 to"),
        (
            line(id="2", content=[{"type": "image", "image": "gone.png"}]),
            "line 2: content[0].image: there is no file gone.png",
        ),
        (line(id="2", content=[{"type": "sound"}]), "line 2: content[0].type: must be text"),
        ({"id": "2"}, 'line 2: "content" is missing'),
    ],
)
def test_a_bad_line_is_named_and_the_others_kept(
    tmp_path: Path, entry: dict[str, Any] | str, problem: str
) -> None:
    data = read_dataset(write(tmp_path / "d.jsonl", line(), entry, "", line(id="9")))
    assert [sample.id for sample in data.samples] == ["1", "9"]
    (found,) = map(str, data.problems)
    assert found.startswith(f"d.jsonl: {problem}")


def test_a_line_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(json.dumps(line()).encode() + b"\n\xff\xfe\n")
    (problem,) = read_dataset(path).problems
    assert str(problem).startswith("d.jsonl: line 2: not ")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", "", "has no sample that can be used"),
        ("d.jsonl", "{}", "has no sample that can be used; d.jsonl: line 1"),
        ("d.json", "{", "not valid JSON at line 1"),
        ("d.txt", "", r"a data set is a \.jsonl or \.json file"),
    ],
)
def test_useless_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_dataset(write(tmp_path / name, content))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make it with prepare_dataset"):
        read_dataset(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="is a folder"):
        read_dataset(tmp_path)


def test_request_files_with_answers(tmp_path: Path) -> None:
    ask = [{"role": "user", "content": "Why?"}]
    requests = [
        {"messages": ask, "answer": "B", "id": "x", "subject": "maths"},
        {"messages": ask, "answer": "blue"},
        {"messages": ask},
        {"messages": [{"role": "nobody", "content": "?"}], "answer": "A"},
    ]
    document = {"requests": requests, "max_generate_length": 5, "temperature": 0.3}
    data = read_dataset(write(tmp_path / "d.json", document))
    first, second = data.samples
    assert (first.id, first.task, first.scoring, first.max_tokens) == ("x", "maths", "choice", 5)
    assert (second.id, second.task, second.scoring) == ("1", "all", "free")
    assert [str(problem).split(": ")[:2] for problem in data.problems] == [
        ["d.json", "requests[2]"],
        ["d.json", "requests[3]"],
    ]
    assert '"answer" is missing' in str(data.problems[0])


def test_the_digest_covers_the_file_and_its_images(tmp_path: Path) -> None:
    image = tmp_path / "i.png"
    image.write_bytes(b"12")
    entry = line(content=[{"type": "image", "image": "i.png"}])
    path = write(tmp_path / "d.jsonl", entry)
    before = read_dataset(path).digest
    assert read_dataset(path).digest == before
    image.write_bytes(b"123")
    changed = read_dataset(path).digest
    write(path, line(**{**entry, "task": "u"}))
    assert len({before, changed, read_dataset(path).digest}) == 3


def test_thinning_takes_samples_from_all_over_the_file(tmp_path: Path) -> None:
    lines = [line(id=f"{task}{i}", task=task) for task in "ab" for i in range(6)]
    data = read_dataset(write(tmp_path / "d.jsonl", *lines))
    assert [s.id for s in data.thinned(3).samples] == ["a0", "a2", "a4", "b0", "b2", "b4"]
    assert data.thinned(99).samples == data.samples
    with pytest.raises(UsageError, match="at least one sample"):
        data.thinned(0)


def test_the_tiny_world(tmp_path: Path) -> None:
    data = read_dataset(prepare_tiny(tmp_path, samples=4, seed=0).path)
    assert len(data.samples) == 28 and len(data.tasks) == 7
    parts = Counter(sample.subtask for sample in data.samples if sample.task == "table")
    assert parts == {"table 256x256": 2, "table 384x256": 1, "table 512x512": 1}
    several = [sample for sample in data.samples if sample.subtask == "4 x 256x256"]
    assert several and all(len(list(sample.images)) == 4 for sample in several)
