"""Real builds of a mixture of experts with TensorRT for RTX, on a machine without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tensorrt_rtx as trt

from edgevlm.builder import Network
from edgevlm.builder.moe_layer import finish_moe_layer, moe_layer_nodes
from edgevlm.builder.onnx_functions import FunctionMapping, NativeMapping
from edgevlm.builder.tensorrt_log import BuildLog
from edgevlm.builder.tensorrt_network import ParsedNetwork, parse_network
from edgevlm.core import UsageError
from edgevlm.core.manifest_file import open_manifest
from edgevlm.models import Checkpoint

from . import moe_shapes
from .conftest import CHECKPOINT as DENSE
from .conftest import LIMITS, build

CHECKPOINT = DENSE.parent / "tiny-moe"
GPUS = ("8.9", "12.0")
LAYERS = 6
NATIVE: dict[str, FunctionMapping] = {
    "MoeExperts": NativeMapping((), moe_layer_nodes, finish_moe_layer)
}


def parsed(checkpoint: Path, mappings: dict[str, FunctionMapping]) -> ParsedNetwork:
    network = Network("llm", Checkpoint(checkpoint), LIMITS, "float16", routing=("sere",))
    log = BuildLog(trt)
    return parse_network(trt, trt.Builder(log.sink), log, network, mappings)


def test_the_bundled_checkpoint_builds_with_the_bodies_of_functions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = build(
        tmp_path / "engine", CHECKPOINT, target="tensorrt-rtx", compute_capabilities=GPUS
    )
    manifest = open_manifest(engine / "llm", "llm")
    assert manifest.routing == ("sere",)
    assert manifest.plugin_sources == {}
    names = {spec.name for spec in manifest.inputs}
    assert {"decode_rows", "sere_top_k", "sere_similarity_0", "sere_protected_5"} <= names
    weights = Checkpoint(CHECKPOINT).nbytes
    assert 0.5 * weights < manifest.files["model.plan"].bytes < 2 * weights
    assert not [r for r in caplog.records if "already exists" in r.message]


def test_a_slice_of_the_30b_a3b_builds(tmp_path: Path) -> None:
    """128 experts of 9.4 MB in each of two layers."""
    command = [sys.executable, "-W", "ignore", "-m", moe_shapes.__name__, str(tmp_path)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    manifest = open_manifest(tmp_path / "engine/llm", "llm")
    assert (manifest.dtype, manifest.routing) == ("bfloat16", ("sere",))
    assert len([s for s in manifest.inputs if s.name.startswith("sere_similarity")]) == 2


def test_every_attention_is_fused_and_every_input_used() -> None:
    found = parsed(CHECKPOINT, {})  # fails where an input has no effect
    attentions = []
    for layer in map(found.definition.get_layer, range(found.definition.num_layers)):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            layer.__class__ = trt.IAttentionInputLayer
            attentions.append(layer.attention)
    assert len(attentions) == LAYERS
    for attention in attentions:
        assert attention.causal_kind == trt.CausalMaskKind.LOWER_RIGHT
        assert attention.key_value_lengths.dtype == trt.int32
        assert not attention.decomposable
    assert found.layers["KV_CACHE_UPDATE"] == found.layers["ROTARY_EMBEDDING"] == 2 * LAYERS
    assert "MOE" not in found.layers


def test_the_layer_for_experts_is_added_as_the_library_wants_it() -> None:
    """With the library's own network; it has no kernel of that layer, so nothing is built."""
    found = parsed(CHECKPOINT, NATIVE)
    assert found.layers["MOE"] == LAYERS
    layers = list(map(found.definition.get_layer, range(found.definition.num_layers)))
    results = set()
    for layer in layers:
        if layer.type == trt.LayerType.MOE:
            inputs = [layer.get_input(i) for i in range(layer.num_inputs)]
            shapes = [tuple(tensor.shape) for tensor in inputs]
            assert shapes == [
                *((-1, 1, 256), (-1, 1, 4), (-1, 1, 4)),
                *((16, 256, 80), (16, 256, 80), (16, 80, 256)),
            ]
            assert [t.dtype for t in inputs] == [trt.float16, trt.int32, *[trt.float16] * 4]
            assert tuple(layer.get_output(0).shape) == (-1, 1, 256)
            results.add(layer.get_output(0).name)
    read = [layer for layer in layers if layer.num_inputs and layer.get_input(0).name in results]
    assert len(read) == len(results) == LAYERS


def test_capacities_need_plugins_which_it_has_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--routing macs .* runs no plugins; .*leave macs out"):
        build(
            tmp_path / "engine",
            CHECKPOINT,
            target="tensorrt-rtx",
            compute_capabilities=GPUS,
            routing=("sere", "macs"),
        )
    assert list(tmp_path.iterdir()) == []
