"""Evaluations on the bundled checkpoint: what is asked, what is kept, and what resuming does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgevlm.accuracy.datasets import DataSet, read_dataset
from edgevlm.accuracy.evaluation import (
    UNPRUNED,
    Answer,
    EngineDirs,
    Plan,
    RunOptions,
    Setting,
    evaluate,
    pruning_settings,
)
from edgevlm.accuracy.evaluation.run import TOGETHER
from edgevlm.core import EdgeVLMError, UsageError

SETTINGS = [UNPRUNED, *pruning_settings(["dart", "downsample"], [0.5])]
CPU = RunOptions(device="cpu")


@pytest.fixture(scope="module")
def data(tiny_data: Path) -> DataSet:
    return read_dataset(tiny_data)


@pytest.fixture(scope="module")
def plan(data: DataSet, engine: Path) -> Plan:
    return Plan(data, [EngineDirs.parse(str(engine))], SETTINGS, CPU)


@pytest.fixture(scope="module")
def whole(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Answer]:
    """The answers of a run that nothing interrupted."""
    return untimed(evaluate(plan, tmp_path_factory.mktemp("whole")).answers)


def untimed(answers: dict[Any, Answer]) -> dict[Any, Answer]:
    return {key: replace(answer, times=None) for key, answer in answers.items()}


def test_answers_are_scored_and_tokens_counted(whole: dict[Any, Answer], data: DataSet) -> None:
    assert len(whole) == 3 * len(data.samples)
    for (_, setting, _), answer in whole.items():
        before, after = answer.visual_tokens
        assert answer.error is None and answer.score in (0.0, 1.0)
        assert (after == before) == (setting == "unpruned")
    assert all(whole["tiny", "unpruned", sample.id].score == 1.0 for sample in data.samples)


def test_an_interrupted_run_continues_to_the_same_answers(
    plan: Plan, whole: dict[Any, Answer], tmp_path: Path
) -> None:
    evaluate(plan, tmp_path)
    file = tmp_path / "answers.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    # Some answers of one group, none of the next, and a line the kill has torn.
    file.write_bytes(b"".join(lines[:2]) + lines[9] + lines[16][:30])
    assert untimed(evaluate(plan, tmp_path).answers) == whole
    assert [json.loads(x)["sample"] for x in file.read_bytes().splitlines()] == [
        json.loads(x)["sample"] for x in lines
    ]


def test_killed_while_running_and_started_again(
    engine: Path, tiny_data: Path, plan: Plan, whole: dict[Any, Answer], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "edgevlm.cli.main", "evaluate", "--device", "cpu"]
    command += ["--engine", str(engine), "--data", str(tiny_data), "--output", str(tmp_path)]
    command += ["--algorithms", "dart", "downsample", "--ratios", "0.5", "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        file = tmp_path / "answers.jsonl"
        while not file.exists() or not file.stat().st_size:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.read()  # ends when the workers have, too
    assert 0 < len(file.read_bytes().splitlines()) < len(whole)
    assert untimed(evaluate(plan, tmp_path).answers) == whole


def test_settings_may_be_added_but_nothing_else_may_change(
    plan: Plan, whole: dict[Any, Answer], tmp_path: Path
) -> None:
    small = replace(plan, data=replace(plan.data, samples=plan.data.samples[:2]))
    evaluate(replace(small, settings=[UNPRUNED]), tmp_path)
    added = evaluate(replace(small, settings=[UNPRUNED, SETTINGS[1]]), tmp_path)
    assert {key[1] for key in added.answers} == {"unpruned", "dart 0.5"}
    changes: list[tuple[Plan, str]] = [
        (plan, "data samples was 2, is 7"),
        (replace(small, options=replace(CPU, max_tokens=3)), "max_tokens was null, is 3"),
        (
            replace(small, settings=[Setting("dart 0.5", {"reduction_ratio": 0.25})]),
            "setting dart 0.5 was",
        ),
    ]
    for changed, message in changes:
        with pytest.raises(UsageError, match=f"holds answers of another run: {message}"):
            evaluate(changed, tmp_path)


def test_a_sample_that_fails_does_not_disturb_the_others(
    plan: Plan, whole: dict[Any, Answer], tmp_path: Path, tiny_data: Path
) -> None:
    lines = tiny_data.read_text(encoding="utf-8").splitlines()
    broken = json.loads(lines[0])
    (tmp_path / "images").symlink_to(tiny_data.parent / "images")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG torn")
    broken["content"][0]["image"] = "broken.png"
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join([json.dumps(broken), *lines[1:]]))
    answers = evaluate(replace(plan, data=read_dataset(path)), tmp_path / "out").answers
    for setting in SETTINGS:
        failed = answers["tiny", setting.name, broken["id"]]
        assert failed.score is None and failed.error is not None
        assert "broken.png" in failed.error and str(tmp_path) not in failed.error
    others = {key: answer for key, answer in whole.items() if key[2] != broken["id"]}
    assert {k: a for k, a in untimed(answers).items() if k in others} == others


def test_groups_do_not_depend_on_what_is_done(plan: Plan) -> None:
    units = list(plan.units(lambda key: False))
    assert [len(unit.samples) for unit in units] == [TOGETHER, 3]
    one = units[1].samples[2].id
    left = list(plan.units(lambda key: key[2] != one or key[1] != "dart 0.5"))
    assert [(unit.samples, unit.settings) for unit in left] == [(units[1].samples, (SETTINGS[1],))]


def test_plans_that_cannot_be_carried_out(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an engine and a setting"):
        replace(plan, settings=[])
    with pytest.raises(UsageError, match=r"two engines are called 'x'.*NAME=DIR"):
        replace(plan, engines=[EngineDirs.parse("x=/a"), EngineDirs.parse("/b/x")])
    with pytest.raises(UsageError, match="workers must be at least 1"):
        evaluate(plan, tmp_path, workers=0)


def test_a_worker_s_error_reaches_the_caller(plan: Plan, tmp_path: Path) -> None:
    missing = replace(CPU, checkpoint=tmp_path / "gone")
    with pytest.raises(EdgeVLMError, match="gone"):
        evaluate(replace(plan, options=missing), tmp_path, workers=2)
