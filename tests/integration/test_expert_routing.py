"""The bundled mixture of experts: answers, and control of its routing alike on every backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.cli.llm_inference import main
from edgevlm.core import EngineLimits, UsageError
from edgevlm.models import Checkpoint
from edgevlm.plugins.macs.config import MacsConfig
from edgevlm.plugins.sere.config import SereConfig
from edgevlm.plugins.sere.table_file import Provenance, mass_name, similarity_name, write_table
from edgevlm.runtime import ExpertRoutingConfig, Runtime
from edgevlm.runtime.engines.torch_llm import TorchLLMEngine

from .conftest import BACKENDS, ROOT, ask, samples
from .oracle import Oracle

CHECKPOINT = ROOT / "examples/checkpoints/tiny-moe"
LIMITS = EngineLimits(max_input_len=320, max_kv_len=640, max_batch=4, max_image_tokens=256)
NOTHING = ExpertRoutingConfig()


@pytest.fixture(scope="module")
def moe_engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("experts")
    for target in BACKENDS:
        build_engine(
            BuildConfig(
                CHECKPOINT, folder / target, target, "float32", LIMITS, routing=("sere", "macs")
            )
        )
    return {target: folder / target for target in BACKENDS}


@pytest.fixture(scope="module")
def moe(moe_engines: dict[str, Path]) -> dict[str, Runtime]:
    """Runtimes by backend; ``fused`` is torch as it runs on a GPU."""
    found = {
        name: Runtime.open(folder / "llm", folder / "visual", device="cpu")
        for name, folder in moe_engines.items()
    }
    folder = moe_engines["torch"]
    fused = Runtime.open(folder / "llm", folder / "visual", device="cpu")
    checkpoint = Checkpoint(CHECKPOINT)
    fused._llm = fused._scheduler._engine = TorchLLMEngine(
        checkpoint.config.text,
        LIMITS,
        checkpoint.text_state(),
        checkpoint.embedding_table(),
        torch.float32,
        torch.device("cpu"),
        fused=True,
    )
    return found | {"fused": fused}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Similarities that are not the checkpoint's, but its own file."""
    path = tmp_path_factory.mktemp("table") / "sere.safetensors"
    write_sere(path, Checkpoint(CHECKPOINT).fingerprint)
    return path


def write_sere(path: Path, fingerprint: str) -> None:
    config = Checkpoint(CHECKPOINT).config.text
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for layer in config.moe_layers:
        half = torch.rand(16, 16, generator=generator)
        tensors[similarity_name(layer)] = (half + half.T) / 2
        tensors[mass_name(layer)] = torch.rand(16, generator=generator)
    names = ("tiny-other", fingerprint, "frobenius", "64", "", "", "least-replaceable")
    write_table(path, tensors, Provenance(*names, "float32", "0.1.0"))


def test_answers_are_those_of_transformers_and_right(moe: dict[str, Runtime]) -> None:
    asked = samples(16)
    requests, oracle = [ask(sample) for sample in asked], Oracle(CHECKPOINT)
    expected = [oracle.answer(request) for request in requests]
    for runtime in moe.values():
        assert [r.text for r in runtime.generate(requests)] == expected
    assert expected == [sample.answer for sample in asked]


@pytest.mark.parametrize(
    ("sere", "macs"),
    [
        (SereConfig(top_k=1, threshold=0.0, protect=0), None),
        (SereConfig(top_k=1, threshold=0.6, protect=3), None),
        (None, MacsConfig(capacity_factor=0.5)),
        (SereConfig(threshold=0.0), MacsConfig(method="token_drop", capacity_factor=0.7)),
    ],
    ids=["sere", "protected", "macs", "both"],
)
def test_control_does_the_same_on_every_backend(
    moe: dict[str, Runtime], table: Path, sere: SereConfig | None, macs: MacsConfig | None
) -> None:
    config = ExpertRoutingConfig(sere, macs, sere_file=table)
    requests = [ask(sample) for sample in samples(4)]
    texts, totals = {}, {}
    for name, runtime in moe.items():
        before = runtime.routing_totals()
        runtime.set_expert_routing(config)
        try:
            texts[name] = [response.text for response in runtime.generate(requests)]
        finally:
            runtime.set_expert_routing(NOTHING)
        after = runtime.routing_totals()
        assert before is not None and after is not None
        totals[name] = after - before
    assert texts["torch"] == texts["fused"] == texts["onnxruntime"]
    for found in totals.values():
        assert (found.steps, found.prompts) == (totals["torch"].steps, totals["torch"].prompts)
        assert bool(found.steps) == (sere is not None)
        assert found.prompts == (4 if macs else 0)
        assert torch.equal(found.active, totals["torch"].active)
        torch.testing.assert_close(found.macs, totals["torch"].macs, rtol=0.02, atol=2.0)
    if sere is not None:
        active = totals["torch"].active.sum(0)
        assert active[1] < active[0]


def test_without_control_nothing_changes(moe: dict[str, Runtime], table: Path) -> None:
    requests = [ask(sample) for sample in samples(4)]
    runtime = moe["onnxruntime"]
    expected = runtime.generate(requests)
    runtime.set_expert_routing(ExpertRoutingConfig(sere=SereConfig(top_k=4), sere_file=table))
    whole = runtime.generate(requests)
    runtime.set_expert_routing(NOTHING)
    assert [r.token_ids for r in whole] == [r.token_ids for r in expected]


def test_a_calibration_of_another_model_is_refused_by_name(
    moe: dict[str, Runtime], tmp_path: Path
) -> None:
    write_sere(tmp_path / "other.safetensors", "0" * 64)
    config = ExpertRoutingConfig(sere=SereConfig(), sere_file=tmp_path / "other.safetensors")
    with pytest.raises(UsageError, match=r"tiny-other.*not on 'tiny-moe'"):
        moe["torch"].set_expert_routing(config)


def test_a_dense_model_is_refused(runtimes: dict[str, Runtime], table: Path) -> None:
    for runtime in runtimes.values():
        runtime.set_expert_routing(NOTHING)
        with pytest.raises(UsageError, match="has no experts"):
            runtime.set_expert_routing(ExpertRoutingConfig(macs=MacsConfig()))


def test_an_engine_built_without_it_is_refused(tmp_path: Path, table: Path) -> None:
    build_engine(
        BuildConfig(CHECKPOINT, tmp_path / "e", "onnxruntime", "float32", LIMITS, routing=())
    )
    runtime = Runtime.open(tmp_path / "e/llm", tmp_path / "e/visual")
    with pytest.raises(UsageError, match="built without sere; rebuild it with --routing sere"):
        runtime.set_expert_routing(ExpertRoutingConfig(sere=SereConfig(), sere_file=table))
    assert runtime.generate([ask(samples(1)[0])])[0].text == samples(1)[0].answer


def test_flags_and_profile(moe_engines: dict[str, Path], table: Path, tmp_path: Path) -> None:
    engine, profile = moe_engines["torch"], tmp_path / "profile.json"
    flags = {
        "--engineDir": engine / "llm",
        "--multimodalEngineDir": engine / "visual",
        "--inputFile": ROOT / "examples/requests/scenes.json",
        "--outputFile": tmp_path / "out.json",
        "--profileOutputFile": profile,
        "--sereFile": table,
        "--sereTopK": 1,
        "--sereThreshold": 0,
        "--sereProtect": 0,
    }
    words = [str(word) for pair in flags.items() for word in pair]
    assert main([*words, "--sere", "--macs"]) == 0
    found = json.loads(profile.read_text())["expert_routing"]
    assert found["sere"]["mean_active_after"] < found["sere"]["mean_active_before"]
    assert len(found["macs"]["layers"]) == 6
    assert found["macs"]["prompts"] == 8
    assert all(layer["rows"] > 0 for layer in found["macs"]["layers"])


def test_settings_without_their_switch_are_refused(
    moe_engines: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [
        *("--engineDir", str(moe_engines["torch"] / "llm")),
        *("--outputFile", str(tmp_path / "o.json")),
        *("--inputFile", str(ROOT / "examples/requests/scenes.json")),
    ]
    for words, message in (
        (["--sereTopK", "1"], "--sereTopK has no effect without --sere; add --sere"),
        (["--macsGain", "1"], "--macsGain has no effect without --macs; add --macs"),
        (["--sere"], "pass it with --sereFile"),
    ):
        assert main([*common, *words]) == 2
        assert message in capsys.readouterr().err
