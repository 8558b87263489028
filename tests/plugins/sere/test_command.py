"""``edgevlm calibrate sere`` from text to file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgevlm.cli.main import main
from edgevlm.models import Checkpoint
from edgevlm.plugins.sere import load_table
from tests.runtime.sample_checkpoint import make_tokenizer

from .checkpoints import save_mixture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mixture of experts with a tokenizer, and texts."""
    folder = tmp_path_factory.mktemp("cli")
    tokenizer = make_tokenizer()
    save_mixture(folder / "moe", vocab_size=tokenizer.get_vocab_size())
    tokenizer.save(str(folder / "moe" / "tokenizer.json"))
    ends = {"eos_token_id": tokenizer.token_to_id("<|im_end|>")}
    (folder / "moe" / "generation_config.json").write_text(json.dumps(ends))
    (folder / "texts.txt").write_text("\n".join(f"what is in image {n}? seconds" for n in range(9)))
    return folder


def run(folder: Path, *flags: str) -> int:
    given = ["--checkpoint", folder / "moe", "--data", folder / "texts.txt", "--max-len", "8"]
    output = ["--output", folder / "out.safetensors"]
    return main(["calibrate", "sere", *map(str, [*given, *output]), *flags])


def test_writes_a_file_of_the_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--sequences", "5", "--metric", "cosine", "--protect-by", "union", "--device", "cpu")
    assert run(folder, *flags, "--task-data", str(folder / "texts.txt")) == 0
    output = capsys.readouterr()
    assert output.out.startswith("calibrated ")
    assert "edgevlm calibrate: layer 4 of 4, " in output.err
    table = load_table(folder / "out.safetensors", Checkpoint(folder / "moe"))
    assert (table.provenance.metric, table.provenance.tokens) == ("cosine", "40")
    assert table.provenance.protect_by == "union"
    assert table.provenance.task_data == table.provenance.data


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--sequences", "99"), "99 texts of 8 tokens are wanted, there are 9"),
        (("--data", "none.txt"), "none.txt: no such file"),
        (("--output", "/nowhere/file"), "--output /nowhere/file: the folder does not exist"),
        (("--device", "tpu9"), "--device tpu9 cannot be used"),
        (("--checkpoint", "/nowhere"), "no such directory"),
    ],
)
def test_what_is_wrong_is_one_line(
    folder: Path, flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *flags) != 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and message in lines[0]


def test_short_texts_can_be_packed(folder: Path) -> None:
    assert run(folder, "--sequences", "10", "--pack") == 0
