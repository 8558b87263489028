"""A mixture of experts through the stand-in for TensorRT: layers, plugins, control."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from edgevlm.builder import BuildConfig, Network, build_engine
from edgevlm.builder.onnx_functions import NativeMapping
from edgevlm.builder.plugin_mappings import onnx_functions
from edgevlm.builder.tensorrt_log import BuildLog
from edgevlm.builder.tensorrt_network import parse_network
from edgevlm.core import EngineError, UsageError
from edgevlm.core.capabilities import TENSORRT
from edgevlm.core.manifest_file import read_manifest, write_manifest
from edgevlm.core.tensorrt_library import TensorRTLibrary
from edgevlm.models import Checkpoint
from edgevlm.plugins.macs.config import MacsConfig
from edgevlm.plugins.sere.config import SereConfig
from edgevlm.runtime import ExpertRoutingConfig, Runtime
from edgevlm.runtime.engines.routing import RoutingTotals
from edgevlm.runtime.parity import verify_engine
from tests.fakes.tensorrt.network import BuildFailure
from tests.fakes.tensorrt.network import Network as FakeNetwork
from tests.integration.conftest import ask, samples
from tests.integration.test_expert_routing import write_sere

from .conftest import CHECKPOINT as DENSE
from .conftest import LIMITS, Install, build, install_fake
from .prompts import open_llm

CHECKPOINT = DENSE.parent / "tiny-moe"
LAYERS = 6
THOR, ORIN = "11.0", "8.7"
BOTH = ("sere", "macs")


def build_moe(output: Path, **options: object) -> Path:
    return build(output, CHECKPOINT, routing=BOTH, **options)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the compute capability of the GPU; ``"cpu"`` is ONNX Runtime's."""
    folder = tmp_path_factory.mktemp("moe")
    for capability in (THOR, ORIN):
        with pytest.MonkeyPatch.context() as patch:
            install_fake(patch, capability=capability)
            build_moe(folder / capability)
    build_engine(
        BuildConfig(CHECKPOINT, folder / "cpu", "onnxruntime", "float16", LIMITS, routing=BOTH)
    )
    return {name: folder / name for name in (THOR, ORIN, "cpu")}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "sere.safetensors"
    write_sere(path, Checkpoint(CHECKPOINT).fingerprint)
    return path


def parsed(capability: str, version: str = "10.16.1", native: bool = True) -> Counter[str]:
    """Layers of the language model, by type; plugins by name."""
    module = sys.modules["tensorrt"]
    library = TensorRTLibrary(TENSORRT, module, version)
    mappings = onnx_functions.usable(library, (capability,), native=native)
    network = Network("llm", Checkpoint(CHECKPOINT), LIMITS, "float16", routing=BOTH)
    log = BuildLog(module)
    trt: Any = module
    found = parse_network(
        trt, trt.Builder(log.sink), log, network, mappings, capabilities=(capability,)
    )
    layers: Counter[str] = Counter()
    for layer in found.definition.layers:
        kind = layer.type.name
        layers[layer.name.rpartition(".")[2] if kind == "PLUGIN_V3" else kind] += 1
    return layers


def test_the_layer_where_there_is_one_and_plugins_elsewhere(install: Install) -> None:
    chain = ("MoeExpertsPlan", "MoeExpertsGateUp", "MoeExpertsDown", "MoeExpertsCombine")
    install(capability=THOR)
    thor = parsed(THOR)
    assert thor["MOE"] == thor["SereRouting"] == LAYERS
    assert not set(chain) & set(thor)
    install(capability=ORIN)
    orin = parsed(ORIN)
    assert [orin[name] for name in (*chain, "SereRouting")] == [LAYERS] * 5
    assert "MOE" not in orin
    assert parsed(THOR, native=False)["MoeExpertsPlan"] == LAYERS


def test_before_kernels_could_be_compiled_ahead_there_are_classes(install: Install) -> None:
    install(capability=ORIN)
    module: Any = sys.modules["tensorrt"]
    old = onnx_functions.usable(TensorRTLibrary(TENSORRT, module, "10.8.0"), (ORIN,))
    assert {name: mapping.native for name, mapping in old.items()} == dict.fromkeys(old, False)
    names = {path.name for mapping in old.values() for path in mapping.sources}
    assert {"classes.py", "plan.py", "kernel.py", "candidates.py"} <= names
    parsed(ORIN, "10.8.0")
    creators = module.get_plugin_registry().creators
    assert {key[0] for key in creators} == {"MoeExperts", "SereRouting", "MacsCapacity"}
    assert module.plugin.plugins == {}


def test_the_manifest_names_the_sources(engines: dict[str, Path]) -> None:
    thor = read_manifest(engines[THOR] / "llm").plugin_sources
    orin = read_manifest(engines[ORIN] / "llm").plugin_sources
    assert set(orin) - set(thor) == {"plan.py", "gate_up.py", "down.py", "combine.py", "tiling.py",
                                     "experts.py"}  # fmt: skip
    assert "classes.py" in thor  # MACS is of that style everywhere
    assert read_manifest(engines[ORIN] / "visual").plugin_sources == {}


Asked = tuple[list[str], RoutingTotals]


def answers(engine: Path, config: ExpertRoutingConfig) -> Asked:
    runtime = Runtime.open(engine / "llm", engine / "visual")
    runtime.set_expert_routing(config)
    texts = [response.text for response in runtime.generate([ask(s) for s in samples(6)])]
    totals = runtime.routing_totals()
    assert totals is not None
    return texts, totals


@pytest.mark.parametrize("capability", [THOR, ORIN])
@pytest.mark.parametrize(
    ("sere", "macs"),
    [
        (None, None),
        (SereConfig(top_k=1, threshold=0.4, protect=3), None),
        (SereConfig(top_k=2, threshold=0.0, protect=0), MacsConfig(capacity_factor=0.5)),
    ],
    ids=["plain", "sere", "both"],
)
def test_answers_and_reports_are_those_of_onnx_runtime(
    engines: dict[str, Path],
    table: Path,
    install: Install,
    capability: str,
    sere: SereConfig | None,
    macs: MacsConfig | None,
) -> None:
    device = install(capability=capability)
    config = ExpertRoutingConfig(sere, macs, sere_file=table if sere else None)
    texts, totals = answers(engines[capability], config)
    wanted, expected = answers(engines["cpu"], config)
    assert texts == wanted
    assert (totals.steps, totals.prompts) == (expected.steps, expected.prompts)
    assert bool(totals.steps) == (sere is not None) and bool(totals.prompts) == (macs is not None)
    assert torch.equal(totals.active, expected.active)
    torch.testing.assert_close(totals.macs, expected.macs, rtol=0.02, atol=2.0)
    if sere is not None:
        assert totals.active[:, 1].sum() < totals.active[:, 0].sum()
    assert device.replays > device.captures > 0


def test_one_graph_serves_every_strength(
    engines: dict[str, Path], table: Path, install: Install
) -> None:
    device = install(capability=ORIN)
    runtime = Runtime.open(engines[ORIN] / "llm", engines[ORIN] / "visual")
    asked = [ask(sample) for sample in samples(2)]
    captures = []
    for top_k in (4, 2, 1):
        sere = SereConfig(top_k=top_k, threshold=0.0, protect=0)
        runtime.set_expert_routing(ExpertRoutingConfig(sere, None, sere_file=table))
        runtime.generate(asked)
        captures.append(device.captures)
    assert captures[0] == captures[-1] > 0


def test_an_engine_without_control_says_so(install: Install, tmp_path: Path, table: Path) -> None:
    install(capability=ORIN)
    engine = build(tmp_path / "engine", CHECKPOINT, routing=())
    manifest = read_manifest(engine / "llm")
    assert not any(spec.name.startswith("sere") for spec in manifest.inputs)
    runtime = Runtime.open(engine / "llm", engine / "visual")
    with pytest.raises(UsageError, match="built without sere; rebuild it with --routing sere"):
        runtime.set_expert_routing(ExpertRoutingConfig(SereConfig(), None, sere_file=table))


def test_class_style_plugins_are_there_before_the_engine_is(
    engines: dict[str, Path], install: Install
) -> None:
    install(capability=ORIN)
    open_llm(engines[ORIN])
    trt: Any = sys.modules["tensorrt"]
    assert trt.get_plugin_registry().get_creator("MacsCapacity", "1", "edgevlm") is not None


def test_an_engine_of_other_plugins_is_refused(
    engines: dict[str, Path], install: Install, tmp_path: Path
) -> None:
    install(capability=ORIN)
    folder = tmp_path / "engine/llm"
    folder.mkdir(parents=True)
    for path in (engines[ORIN] / "llm").iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "manifest.json").unlink()
    manifest = read_manifest(engines[ORIN] / "llm")
    sources = manifest.plugin_sources | {"admission.py": "0" * 64}
    place = manifest.checkpoint.__class__(str(CHECKPOINT), manifest.checkpoint.fingerprint)
    write_manifest(replace(manifest, plugin_sources=sources, checkpoint=place), folder)
    with pytest.raises(EngineError, match=r"other TensorRT plugins \(admission.py differs\); reb"):
        open_llm(folder.parent)


@pytest.mark.parametrize("place", ["add", "build"])
def test_the_plugin_where_the_layer_turns_out_not_to_work(
    install: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    install(capability=THOR)
    if place == "add":
        monkeypatch.setattr(FakeNetwork, "add_moe", lambda *given: None)
        reason = "cannot add its layer"
    else:
        usual: Callable[[Any, Any], Any] = FakeNetwork._with_moe_layers

        def refuse(self: Any, model: Any) -> Any:
            if any(layer.type.name == "MOE" for layer in self.layers):
                raise BuildFailure("no tactic for the MoE layer")
            return usual(self, model)

        monkeypatch.setattr(FakeNetwork, "_with_moe_layers", refuse)
        reason = "no tactic for the MoE layer"
    with caplog.at_level(logging.WARNING):
        engine = build_moe(tmp_path / "engine")
    warned = [r.message for r in caplog.records if "the plugin instead" in r.message]
    assert len(warned) == 1 and reason in warned[0]
    assert "gate_up.py" in read_manifest(engine / "llm").plugin_sources


def test_only_the_mixture_of_experts_has_a_layer_of_its_own(install: Install) -> None:
    install(capability=THOR)
    module: Any = sys.modules["tensorrt"]
    chosen = onnx_functions.usable(TensorRTLibrary(TENSORRT, module, "10.16.1"), (THOR,))
    native = {name for name, mapping in chosen.items() if isinstance(mapping, NativeMapping)}
    assert native == {"MoeExperts"}


@pytest.mark.parametrize("capability", [THOR, ORIN])
def test_the_comparison_with_the_reference(
    engines: dict[str, Path], install: Install, capability: str
) -> None:
    install(capability=capability)
    report = verify_engine(engines[capability])
    assert report.problems == ()
    assert report.figures["llm"]["decode_cosine"] > 0.999
