"""Files of tensors, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from edgevlm.core import UsageError
from edgevlm.plugins.tensor_file import save_tensors


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    path.write_text("an older one")
    transposed = torch.arange(6.0).view(2, 3).T
    save_tensors(path, {"a": transposed, "b": torch.tensor([7])}, {"format": "mine"})
    found = load_file(path)
    assert torch.equal(found["a"], transposed) and torch.equal(found["b"], torch.tensor([7]))
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "mine"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file.safetensors"
    save_tensors(path, {"a": torch.zeros(1)}, {})
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match=f"cannot write {path}: No space left on device"):
        save_tensors(path, {"a": torch.ones(1)}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*nowhere/file"):
        save_tensors(tmp_path / "nowhere" / "file", {"a": torch.zeros(1)}, {})
