"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgevlm.core import UsageError
from edgevlm.runtime import require_folder, write_atomically


def test_a_folder_that_is_not_there_is_said_before_the_work(tmp_path: Path) -> None:
    require_folder(tmp_path / "out.md")
    with pytest.raises(UsageError, match="the folder does not exist; create it first"):
        require_folder(tmp_path / "none" / "out.md")


def test_nothing_is_left_behind_where_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "out.md").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_atomically(tmp_path / "out.md", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["out.md"]
