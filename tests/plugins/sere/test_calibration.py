"""Calibration against transformers, and what happens when it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from edgevlm.core import UsageError
from edgevlm.models import Checkpoint
from edgevlm.plugins.sere import Calibration, SereTable, calibrate, load_table
from edgevlm.plugins.sere.similarity import METRICS
from tests.models.random_model import RandomModel

from .checkpoints import LAYERS, save_mixture
from .test_similarity import DEFINITIONS

CPU = torch.device("cpu")


def token_ids(sequences: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 90, (sequences, 12), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RandomModel]:
    folder = tmp_path_factory.mktemp("mixture") / "random-moe"
    return folder, save_mixture(folder)


def calibrated(folder: Path, output: Path, **settings: object) -> SereTable:
    checkpoint = Checkpoint(folder)
    calibrate(checkpoint, Calibration(token_ids(6), **settings), output, CPU)  # type: ignore[arg-type]
    return load_table(output, checkpoint)


def by_transformers(model: RandomModel, tokens: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
    """All experts' outputs ``[N,R,H]`` and the router's weights ``[R,N]`` of each layer."""
    seen: dict[int, Tensor] = {}
    layers = model.reference.model.language_model.layers
    hooks = [
        layers[index].mlp.register_forward_pre_hook(
            lambda module, inputs, index=index: seen.update({index: inputs[0].flatten(0, 1)})
        )
        for index in LAYERS
    ]
    with torch.no_grad():
        model.reference(input_ids=tokens)
    for hook in hooks:
        hook.remove()
    state, found = model.text_state(), {}
    for index, hidden in seen.items():
        name = f"layers.{index}.mlp."
        gate, up = (hidden @ state[name + "experts.gate_up_proj"]).chunk(2, dim=-1)
        outputs = (F.silu(gate) * up) @ state[name + "experts.down_proj"]
        best, ids = (hidden @ state[name + "gate.weight"].T).softmax(dim=-1).topk(2)
        weights = torch.zeros(len(hidden), 6).scatter_(1, ids, best / best.sum(-1, keepdim=True))
        found[index] = (outputs, weights)
    return found


@pytest.mark.parametrize("metric", METRICS)
def test_is_what_the_experts_of_transformers_are(mixture, metric: str, tmp_path: Path) -> None:
    folder, model = mixture
    table = calibrated(folder, tmp_path / "table", metric=metric)
    expected = by_transformers(model, token_ids(6))
    assert list(table.similarity) == list(LAYERS)
    for layer, (outputs, weights) in expected.items():
        similarity = DEFINITIONS[metric](outputs).float()
        torch.testing.assert_close(table.similarity[layer], similarity, atol=2e-4, rtol=0)
        mass = weights.sum(dim=0) / weights.sum()
        torch.testing.assert_close(table.routed_mass[layer], mass, atol=2e-4, rtol=0)


def test_mass_is_that_of_the_tasks_and_similarity_is_not(mixture, tmp_path: Path) -> None:
    folder, model = mixture
    plain = calibrated(folder, tmp_path / "plain")
    tasks = token_ids(5, seed=1)
    table = calibrated(folder, tmp_path / "tasks", task_tokens=tasks)
    for layer, (_, weights) in by_transformers(model, tasks).items():
        assert torch.equal(table.similarity[layer], plain.similarity[layer])
        mass = weights.sum(dim=0) / weights.sum()
        torch.testing.assert_close(table.routed_mass[layer], mass, atol=2e-4, rtol=0)
    assert table.provenance.task_data != table.provenance.data == plain.provenance.data


def test_groups_of_texts_do_not_matter(mixture, tmp_path: Path, monkeypatch) -> None:
    whole = calibrated(mixture[0], tmp_path / "whole")
    monkeypatch.setattr(METRICS["frobenius"], "chunk", 30)  # two texts at a time
    parts = calibrated(mixture[0], tmp_path / "parts")
    for layer in LAYERS:
        torch.testing.assert_close(
            whole.similarity[layer], parts.similarity[layer], atol=1e-5, rtol=0
        )


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from edgevlm.models import Checkpoint
from edgevlm.plugins.sere import Calibration, calibrate

def die(layer, layers, done):
    if layer == 2:
        os.kill(os.getpid(), signal.SIGKILL)

tokens = torch.load(sys.argv[3])
calibrate(Checkpoint(Path(sys.argv[1])), Calibration(tokens), Path(sys.argv[2]),
          torch.device("cpu"), die)
"""


def test_a_killed_calibration_goes_on_where_it_was(mixture, tmp_path: Path) -> None:
    folder = mixture[0]
    expected = calibrated(folder, tmp_path / "whole")
    output, tokens = tmp_path / "killed", tmp_path / "tokens.pt"
    torch.save(token_ids(6), tokens)
    process = subprocess.run([sys.executable, "-c", KILLED, folder, output, tokens], check=False)
    assert process.returncode == -9
    assert not output.exists() and (tmp_path / "killed.partial").exists()

    layers: list[int] = []
    checkpoint = Checkpoint(folder)
    calibrate(checkpoint, Calibration(token_ids(6)), output, CPU, lambda *at: layers.append(at[0]))
    assert layers == [2, 3]
    found = load_table(output, checkpoint)
    assert found.provenance == expected.provenance
    for layer in LAYERS:
        assert torch.equal(found.similarity[layer], expected.similarity[layer])
        assert torch.equal(found.routed_mass[layer], expected.routed_mass[layer])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "tokens.pt", "whole"]


@pytest.mark.parametrize("how", ["other settings", "truncated"])
def test_other_work_is_not_taken_up(mixture, how: str, tmp_path: Path) -> None:
    folder, output = mixture[0], tmp_path / "table"
    checkpoint = Checkpoint(folder)

    def stop(layer: int, layers: int, done: float) -> None:
        if layer == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(checkpoint, Calibration(token_ids(6)), output, CPU, stop)
    partial = tmp_path / "table.partial"
    calibration = Calibration(token_ids(6), metric="cosine")
    if how == "truncated":
        partial.write_bytes(partial.read_bytes()[:-1])
        calibration = Calibration(token_ids(6))
    layers: list[int] = []
    calibrate(checkpoint, calibration, output, CPU, lambda *at: layers.append(at[0]))
    assert layers == [0, 1, 2, 3]
    assert load_table(output, checkpoint).provenance.metric == calibration.metric


def test_progress_reaches_the_end(mixture, tmp_path: Path) -> None:
    calls: list[tuple[int, int, float]] = []
    checkpoint = Checkpoint(mixture[0])
    calibrate(
        checkpoint, Calibration(token_ids(2)), tmp_path / "t", CPU, lambda *at: calls.append(at)
    )
    assert calls == [(0, 4, 0.25), (1, 4, 0.5), (2, 4, 0.75), (3, 4, 1.0)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "euclid"}, "metric must be one of frobenius, cosine, cka, got 'euclid'"),
        ({"protect_by": "luck"}, "protect_by must be one of least-replaceable"),
        ({"task_tokens": torch.zeros(1, 3)}, "as many tokens as calibration texts"),
        ({"tokens": torch.zeros(0, 8)}, "at least one text"),
        ({"tokens": torch.zeros(8, 1)}, "of at least two tokens"),
    ],
)
def test_what_is_wrong_is_named(settings, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Calibration(**{"tokens": token_ids(2), **settings})
