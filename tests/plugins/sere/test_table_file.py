"""Reading calibration files: what they protect, and which ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from edgevlm.core import UsageError
from edgevlm.models import Checkpoint
from edgevlm.plugins.sere import (
    Calibration,
    SereConfig,
    calibrate,
    load_table,
    protected_experts,
)
from tests.models.random_model import make_random_model

from .checkpoints import LAYERS, save_mixture


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "mine"
    save_mixture(folder)
    return Checkpoint(folder)


@pytest.fixture(scope="module")
def table(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    path = tmp_path_factory.mktemp("table") / "mine.safetensors"
    tokens = torch.arange(40).view(4, 10)
    calibration = Calibration(tokens, protect_by="routed-mass")
    calibrate(checkpoint, calibration, path, torch.device("cpu"))
    return path


def changed(table: Path, path: Path, tensors=None, metadata=None) -> Path:
    """A copy with other tensors or metadata; ``None`` removes one."""
    with safe_open(table, "pt") as file:
        old = file.metadata()
    parts = [{**load_file(table), **(tensors or {})}, {**old, **(metadata or {})}]
    kept = [{k: v for k, v in part.items() if v is not None} for part in parts]
    save_file(kept[0], path, kept[1])
    return path


def test_says_how_it_came_about(table: Path, checkpoint: Checkpoint) -> None:
    with safe_open(table, "pt") as file:
        metadata = file.metadata()
        assert set(file.keys()) == {
            f"layers.{layer}.{what}" for layer in LAYERS for what in ("similarity", "routed_mass")
        }
    assert metadata["checkpoint"] == "mine"
    assert metadata["fingerprint"] == checkpoint.fingerprint
    assert (metadata["metric"], metadata["tokens"]) == ("frobenius", "40")
    assert (metadata["dtype"], metadata["protect_by"]) == ("float32", "routed-mass")
    assert len(metadata["data"]) == 64 and metadata["task_data"] == ""
    assert metadata["edgevlm"]


def test_protection_is_the_files_unless_the_settings_have_their_own(table, checkpoint) -> None:
    loaded = load_table(table, checkpoint)
    for config, rule, count in (
        (SereConfig(), "routed-mass", 1),  # an eighth of six
        (SereConfig(protect=3), "routed-mass", 3),
        (SereConfig(protect=2, protect_by="union"), "union", 2),
        (SereConfig(protect=0), "routed-mass", 0),
    ):
        for layer, found in loaded.protected(config).items():
            similarity, mass = loaded.similarity[layer], loaded.routed_mass[layer]
            assert torch.equal(found, protected_experts(similarity, mass, count, rule))
    with pytest.raises(UsageError, match="no more than the 6 experts"):
        loaded.protected(SereConfig(protect=7))


def test_the_diagonal_is_one_whatever_the_file_says(table, checkpoint, tmp_path: Path) -> None:
    name = "layers.2.similarity"
    other = changed(table, tmp_path / "other", {name: torch.zeros(6, 6)})
    assert torch.equal(load_table(other, checkpoint).similarity[2], torch.eye(6))


def test_of_another_checkpoint_is_refused_by_name(table, tmp_path: Path) -> None:
    save_mixture(tmp_path / "other-model", seed=1)
    with pytest.raises(UsageError) as caught:
        load_table(table, Checkpoint(tmp_path / "other-model"))
    message = str(caught.value)
    assert str(table) in message and "'mine'" in message and "'other-model'" in message
    assert "edgevlm calibrate sere --checkpoint" in message


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"layers.0.similarity": None}, {}, r"layers.0.similarity is missing.*needs \[6, 6\]"),
        ({"layers.3.similarity": torch.ones(5, 5)}, {}, r"has shape \[5, 5\].*needs \[6, 6\]"),
        ({"layers.3.routed_mass": torch.ones(7)}, {}, r"routed_mass has shape \[7\]"),
        ({"layers.0.similarity": torch.full((6, 6), torch.nan)}, {}, "values outside 0..1"),
        ({"layers.0.similarity": torch.full((6, 6), 1.5)}, {}, "values outside 0..1"),
        ({}, {"format": "edgevlm-sere-0"}, "no calibration file of this version"),
        ({}, {"metric": None}, "no calibration file of this version"),
    ],
)
def test_what_does_not_fit_is_refused(
    table: Path, checkpoint: Checkpoint, tmp_path: Path, tensors, metadata, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_table(changed(table, tmp_path / "other", tensors, metadata), checkpoint)


@pytest.mark.parametrize("how", ["missing", "truncated", "text", "plain weights"])
def test_what_is_no_table_is_refused(table, checkpoint, how: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if how == "truncated":
        path.write_bytes(table.read_bytes()[:-8])
    elif how == "text":
        path.write_text(json.dumps({"similarity": []}))
    elif how == "plain weights":
        save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(UsageError, match=f"{path}.*run edgevlm calibrate sere"):
        load_table(path, checkpoint)


def test_a_model_without_experts_has_none_to_calibrate(tmp_path: Path) -> None:
    make_random_model().reference.save_pretrained(tmp_path / "dense")
    calibration = Calibration(torch.zeros(1, 4, dtype=torch.int64))
    with pytest.raises(UsageError, match="not a mixture of experts"):
        calibrate(Checkpoint(tmp_path / "dense"), calibration, tmp_path / "t", torch.device("cpu"))


def test_a_folder_that_is_not_there_is_named(checkpoint: Checkpoint, tmp_path: Path) -> None:
    calibration = Calibration(torch.zeros(1, 4, dtype=torch.int64))
    with pytest.raises(UsageError, match=r"cannot write .*nowhere"):
        calibrate(checkpoint, calibration, tmp_path / "nowhere" / "t", torch.device("cpu"))
