"""Groups of experts, and the file they come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgevlm.cli import calibrate_macs
from edgevlm.core import UsageError
from edgevlm.models import Checkpoint, Routing
from edgevlm.plugins.macs import (
    ModalityCounter,
    ModalityCounts,
    Provenance,
    expert_groups,
    load_counts,
    write_counts,
)

ROOT = Path(__file__).parents[3]
CHECKPOINT = ROOT / "examples/checkpoints/tiny-moe"


def test_groups_do_not_depend_on_how_much_of_each_there_was() -> None:
    # Parts of visual choices .65 .10 .25 0 0, of text choices .35 .05 .25 .35 0
    counts = torch.tensor([[[650, 100, 250, 0, 0], [7, 1, 5, 7, 0]]])
    assert expert_groups(counts, 0.15).tolist() == [[1, 1, 0, -1, 0]]
    assert expert_groups(counts, 0.5).tolist() == [[0, 0, 0, -1, 0]]
    assert expert_groups(counts, 0.0).tolist() == [[1, 1, 1, -1, 0]]


def test_an_expert_on_the_border_belongs_to_the_group() -> None:
    counts = torch.tensor([[[65, 35], [35, 65]]])
    assert expert_groups(counts, 0.15).tolist() == [[1, -1]]


def test_counting() -> None:
    counter = ModalityCounter((1, 3), 4)
    ids = torch.tensor([[0, 1], [2, 1], [3, 0]])
    routing = Routing(torch.zeros(3, 4), ids, torch.zeros(3, 2))
    counter.add(3, routing, torch.tensor([True, True, False]))
    assert counter.counts.tolist() == [[[0] * 4] * 2, [[1, 2, 1, 0], [1, 0, 0, 1]]]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return Checkpoint(CHECKPOINT)


@pytest.fixture
def counts(checkpoint: Checkpoint) -> ModalityCounts:
    moe = checkpoint.config.text.moe
    assert moe is not None
    shape = (len(checkpoint.config.text.moe_layers), 2, moe.num_experts)
    origin = Provenance("tiny-moe", checkpoint.fingerprint, "1", "2", "3", "d", "float32", "0")
    return ModalityCounts(torch.randint(0, 99, shape), origin)


def test_file(tmp_path: Path, checkpoint: Checkpoint, counts: ModalityCounts) -> None:
    write_counts(tmp_path / "counts", counts)
    found = load_counts(tmp_path / "counts", checkpoint)
    assert torch.equal(found.counts, counts.counts) and found.provenance == counts.provenance


def test_counts_of_another_model_are_refused_by_name(
    tmp_path: Path, checkpoint: Checkpoint, counts: ModalityCounts
) -> None:
    other = replace(counts.provenance, checkpoint="other-moe", fingerprint="0" * 64)
    write_counts(tmp_path / "counts", replace(counts, provenance=other))
    with pytest.raises(
        UsageError, match=r"calibrated on checkpoint 'other-moe'.* not on 'tiny-moe'"
    ):
        load_counts(tmp_path / "counts", checkpoint)


def test_damaged_files_are_refused(
    tmp_path: Path, checkpoint: Checkpoint, counts: ModalityCounts
) -> None:
    path = tmp_path / "counts"
    with pytest.raises(UsageError, match="calibrate macs"):
        load_counts(path, checkpoint)
    path.write_bytes(b"not this")
    with pytest.raises(UsageError, match="calibrate macs"):
        load_counts(path, checkpoint)
    write_counts(path, replace(counts, counts=counts.counts[:, :, 1:]))
    with pytest.raises(UsageError, match="counts must be"):
        load_counts(path, checkpoint)
    with pytest.raises(UsageError, match="no calibration file of this version"):
        load_counts(CHECKPOINT / "model.safetensors", checkpoint)


def calibrate(checkpoint: Path, data: Path, output: Path) -> int:
    import argparse

    parser = argparse.ArgumentParser()
    calibrate_macs.add_arguments(parser)
    given = ["--checkpoint", checkpoint, "--data", data, "--output", output]
    return calibrate_macs.run(parser.parse_args([str(word) for word in given]))


def test_calibration(
    tmp_path: Path, checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "requests.json"
    image = ROOT / "examples/images/read-s512.png"
    data.write_text(
        '{"requests": [{"messages": [{"role": "user", "content": ['
        f'{{"type": "image", "image": "{image}"}}, {{"type": "text", "text": "Read it."}}]}}]}}]}}'
    )
    output = tmp_path / "counts.safetensors"
    assert calibrate(CHECKPOINT, data, output) == 0
    found = load_counts(output, checkpoint)
    moe = checkpoint.config.text.moe
    assert moe is not None
    origin = found.provenance
    assert int(origin.visual_tokens) == (512 // 32) ** 2 and origin.prompts == "1"
    for modality, tokens in enumerate((origin.visual_tokens, origin.text_tokens)):
        assert (found.counts[:, modality].sum(1) == int(tokens) * moe.top_k).all()
    assert "layer 0: " in capsys.readouterr().out


def test_calibration_of_a_dense_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a mixture of experts"):
        calibrate(ROOT / "examples/checkpoints/tiny-dense", tmp_path / "r", tmp_path / "o")
