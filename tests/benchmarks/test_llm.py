"""The language model benchmark at toy size on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from edgevlm.benchmarks import llm, llm_checks
from edgevlm.benchmarks.llm_shapes import SHAPES, RandomState
from edgevlm.runtime.engines.torch_steps import TorchSteps

TOY = ["--shape", "tiny", "--device", "cpu", "--repeats", "1"]


def test_toy_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "llm.json"
    assert llm.main([*TOY, "--output", str(output)]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert {"command", "torch", "device", "copy_gb_s", "shape"} <= set(found["environment"])
    assert found["failures"] == []
    assert max(row["error"] for row in found["checks"]) < 1e-4
    assert [row["tokens"] for row in found["graphs"][:3]] == [64, 54, 44]
    assert all(row["ms"] > 0 for name in ("plain", "fused", "graphs") for row in found[name])
    assert all(row["tokens_per_s"] > 0 for row in found["graphs"][3:])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("decode, graphs, batch 3")


def test_a_wrong_part_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = TorchSteps.norm_gated
    monkeypatch.setattr(TorchSteps, "norm_gated", lambda *given: 1.01 * right(*given))
    output = tmp_path / "llm.json"
    assert llm.main([*TOY, "--output", str(output)]) == 1
    found = json.loads(output.read_text(encoding="utf-8"))
    assert [failure["part"] for failure in found["failures"]] == ["checks"]
    assert len(found["graphs"]) == 5
    assert "checks failed: WrongResult: fused, prefill: relative error" in capsys.readouterr().out


def test_checks_see_a_key_in_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TorchSteps.rotate_and_store

    def shifted(self, qkv, layer, rows, cache) -> None:
        right(self, qkv, layer, rows, cache)
        cache.k[:, :, 5] = 0

    monkeypatch.setattr(TorchSteps, "rotate_and_store", shifted)
    with pytest.raises(llm_checks.WrongResult, match=r"fused, .*; graphs, "):
        list(llm_checks.check(SHAPES["tiny"], torch.float32, torch.device("cpu")))


def test_random_weights_are_the_same_each_time() -> None:
    state = RandomState(SHAPES["tiny"].config, torch.bfloat16, torch.device("cpu"))
    name = "layers.1.mlp.up_proj.weight"
    assert torch.equal(state[name], state[name])
    assert not torch.equal(state[name], state["layers.2.mlp.up_proj.weight"])
    assert state["lm_head.weight"] is state["lm_head.weight"]
    assert len(dict(state)) == len(state)


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert llm.main(["--device", "nonsense"]) == 2
    assert "device 'nonsense' cannot be used" in capsys.readouterr().err
