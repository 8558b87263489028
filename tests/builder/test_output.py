"""An output directory is replaced whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgevlm.builder.output import replace_directory
from edgevlm.core import EngineError, UsageError

_KILLED = """
import os, sys
from pathlib import Path
from edgevlm.builder.output import replace_directory
with replace_directory(Path(sys.argv[1])) as directory:
    (directory / "llm").mkdir()
    (directory / "llm" / "manifest.json").write_text("half")
    os.kill(os.getpid(), 9)
"""


def write(target: Path, text: str) -> None:
    with replace_directory(target) as directory:
        (directory / "llm").mkdir()
        (directory / "llm" / "manifest.json").write_text(text)


def read(target: Path) -> str:
    return (target / "llm" / "manifest.json").read_text()


def test_a_new_directory_appears_whole_with_its_parents(tmp_path: Path) -> None:
    target = tmp_path / "engines" / "x"
    with replace_directory(target) as directory:
        (directory / "llm").mkdir()
        assert not target.exists()
    assert target.is_dir()
    assert [path.name for path in target.parent.iterdir()] == ["x"]


def test_an_existing_engine_is_replaced_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "x"
    write(target, "old")
    with pytest.raises(RuntimeError), replace_directory(target) as directory:
        (directory / "visual").mkdir()
        raise RuntimeError
    assert read(target) == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    write(target, "new")
    assert read(target) == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_killed_build_leaves_the_old_engine_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    target = tmp_path / "x"
    write(target, "old")
    assert subprocess.run([sys.executable, "-c", _KILLED, str(target)]).returncode == -9
    assert read(target) == "old"
    assert (tmp_path / ".x.building" / "llm").exists()
    write(target, "new")
    assert read(target) == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_kill_between_the_two_renames_is_undone(tmp_path: Path) -> None:
    target = tmp_path / "x"
    write(target, "old")
    target.rename(tmp_path / ".x.previous")
    with pytest.raises(RuntimeError), replace_directory(target):
        raise RuntimeError
    assert read(target) == "old"


def test_a_second_build_of_one_output_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with replace_directory(target) as directory:
        (directory / "llm").mkdir()
        with pytest.raises(EngineError, match="another build of it is running"):
            write(target, "second")
        write(tmp_path / "y", "neighbour")
    assert (target / "llm").is_dir()
    assert not (target / "llm" / "manifest.json").exists()


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_is_not_an_engine_is_left_alone(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "x"
    if kind == "file":
        target.write_text("precious")
    else:
        target.mkdir()
        (target / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"not an engine directory.*choose another --output"):
        write(target, "new")
    survivor = target if kind == "file" else target / "thesis.txt"
    assert survivor.read_text() == "precious"


def test_an_empty_directory_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    write(tmp_path / "x", "new")
    assert read(tmp_path / "x") == "new"
