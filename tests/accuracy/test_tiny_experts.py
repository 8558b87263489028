"""Accuracy of the tiny mixture of experts under few ways of routing, on few prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from edgevlm.accuracy.tiny import TASKS, experts, heldout
from edgevlm.accuracy.tiny.expert_cases import FACTORS, Case, cases
from edgevlm.accuracy.tiny.experts import Asker, main, prompts
from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.core import EngineLimits
from edgevlm.models import Checkpoint
from edgevlm.plugins.sere.table_file import Provenance, mass_name, similarity_name, write_table
from edgevlm.runtime import ExpertRoutingConfig, Runtime

CHECKPOINT = Path(__file__).resolve().parents[2] / "examples/checkpoints/tiny-moe"
LIMITS = EngineLimits(max_input_len=320, max_kv_len=384, max_batch=4, max_image_tokens=256)


@pytest.fixture(scope="module")
def moe_engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experts") / "tiny-moe"
    routing = ("sere", "macs")
    build_engine(BuildConfig(CHECKPOINT, folder, "torch", "float32", LIMITS, routing=routing))
    return folder


@pytest.fixture
def sere_file(tmp_path: Path) -> Path:
    """All experts are equally similar."""
    checkpoint = Checkpoint(CHECKPOINT)
    tensors = {}
    for layer in checkpoint.config.text.moe_layers:
        tensors |= {similarity_name(layer): torch.ones(16, 16), mass_name(layer): torch.ones(16)}
    said = ("tiny-moe", checkpoint.fingerprint, "frobenius", "64", "", "", "least-replaceable")
    write_table(tmp_path / "sere", tensors, Provenance(*said, "float32", "0.1.0"))
    return tmp_path / "sere"


def few(sere_file: Path, macs_file: Path) -> Iterator[Case]:
    """One case of each group."""
    yield Case("whole", "as routed", ExpertRoutingConfig())
    sere = {"sere": {"top_k": 1, "threshold": 0.0, "protect": 0}, "sere_file": str(sere_file)}
    yield Case("decode", "one expert", ExpertRoutingConfig.from_mapping(sere))
    for factor in (0.1, 4.0):
        macs = {"macs": {"method": "token_drop", "capacity_factor": factor}}
        yield Case("prefill", "drop", ExpertRoutingConfig.from_mapping(macs), factor)


def test_from_engine_to_tables(
    moe_engine: Path, sere_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experts, "cases", few)
    output = tmp_path / "report.md"
    words = ["--engine", moe_engine, "--sere", sere_file, "--macs", "unused", "--prompts", "1"]
    assert main([str(word) for word in [*words, "--batch", "4", "--output", output]]) == 0
    text = output.read_text(encoding="utf-8")
    assert "    python -m edgevlm.accuracy.tiny.experts --engine tiny-moe --sere sere " in text
    assert str(tmp_path) not in text
    document = json.loads(output.with_suffix(".json").read_text())
    whole, one, tight, loose = document["rows"]
    assert document["batch"] == 4
    assert whole["scores"]["all"] == 100.0 and set(TASKS) < set(whole["scores"])
    assert "active" not in whole and "load" not in whole
    before, after = one["active"]
    assert before > after > 0 and 0 <= one["changed"] <= 100
    assert tight["dropped"] > 50 and tight["load"] < loose["load"]
    assert loose["dropped"] == 0.0 and loose["scores"] == whole["scores"]
    assert tight["doubt"] != whole["doubt"] == pytest.approx(loose["doubt"], abs=1e-4)


def test_a_batch_that_does_not_fit_is_one_line(
    moe_engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--engine", moe_engine, "--sere", "s", "--macs", "m", "--output", tmp_path / "o.md"]
    assert main([str(word) for word in [*words, "--batch", "5"]]) == 2
    assert capsys.readouterr().err == "error: --batch: the engine was built for 4\n"


def test_prompts_take_turns() -> None:
    drawn = list(prompts(2))
    assert [sample.task for sample in drawn] == [*TASKS] * 2
    assert all(a.bucket != b.bucket for a, b in zip(drawn[:7], drawn[7:], strict=True))
    assert len({(sample.task, sample.bucket, sample.index) for sample in drawn}) == 14


def test_kinds_of_prompts(moe_engine: Path) -> None:
    runtime = Runtime.open(moe_engine / "llm", moe_engine / "visual", device="cpu")
    samples = [next(heldout("read", bucket, 1, 0)) for bucket in ("s256", "s512", "m4")]
    assert Asker(runtime, samples).kinds == ["text-heavier", "visual-heavy", "visual-heavy"]


def test_all_cases(tmp_path: Path) -> None:
    sere, macs = tmp_path / "sere", tmp_path / "macs"
    found = list(cases(sere, macs))
    assert found[0].group == "whole" and found[0].routing == ExpertRoutingConfig()
    assert len({(case.name, case.factor) for case in found}) == len(found)
    for case in found[1:]:
        limits = case.routing.macs
        if case.group == "prefill":
            assert limits is not None and limits.capacity_factor == case.factor
            assert case.routing.macs_file == macs
        else:
            assert case.group == "decode" and limits is None and case.factor is None
            assert (case.routing.sere is None) == (case.routing.truncation is not None)
            assert case.routing.sere_file == (None if case.routing.sere is None else sere)
    methods = {case.name for case in found if case.group == "prefill"}
    assert len([case for case in found if case.group == "prefill"]) == len(methods) * len(FACTORS)
