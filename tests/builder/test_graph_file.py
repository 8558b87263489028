"""What ``model.onnx`` contains, and what it must not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgevlm.builder import Network
from edgevlm.core import EngineError
from edgevlm.models.checkpoint import Checkpoint
from edgevlm.models.onnx_weights import external_weights
from tests.builder.checkpoints import save_sparse_4b
from tests.builder.conftest import LIMITS, Built

_MEASURED_BUILD = """
import re, sys
from pathlib import Path
from edgevlm.builder import BuildConfig, build_engine
build_engine(BuildConfig(Path(sys.argv[1]), Path(sys.argv[2]), "onnxruntime"))
# Unlike getrusage's, this peak leaves out the process that started this one.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def load(engine: Path, kind: str) -> onnx.ModelProto:
    return onnx.load(engine / kind / "model.onnx", load_external_data=False)


@pytest.mark.parametrize("kind", ["llm", "visual"])
def test_only_the_standard_domain_is_used(built: Built, kind: str) -> None:
    model = load(built.engine, kind)
    called = {node.op_type for node in model.graph.node if node.domain == "edgevlm"}
    assert called == {function.name for function in model.functions}
    domains = {"": 24, "edgevlm": 1} if called else {"": 24}
    assert {item.domain: item.version for item in model.opset_import} == domains
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    assert {node.domain for node in bodies[0]} == set(domains)
    assert {node.domain for body in bodies[1:] for node in body} <= {""}
    sequences = {node.op_type for node in model.graph.node if "Sequence" in node.op_type}
    assert sequences == set()  # TensorRT has none


@pytest.mark.parametrize("kind", ["llm", "visual"])
def test_shapes_are_consistent_under_strict_inference(built: Built, kind: str) -> None:
    model = load(built.engine, kind)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


@pytest.mark.parametrize("kind", ["llm", "visual"])
def test_no_path_of_the_building_machine_is_inside(built: Built, kind: str) -> None:
    data = (built.engine / kind / "model.onnx").read_bytes()
    for word in (b"/home", b"/tmp", b".py", str(built.checkpoint).encode()):
        assert word not in data


@pytest.mark.parametrize("kind", ["llm", "visual"])
def test_the_same_input_gives_the_same_bytes(widened: Built, kind: str) -> None:
    checkpoint = Checkpoint(widened.checkpoint)
    network = Network(kind, checkpoint, LIMITS, "float32", dynamic_kv=True, importance_layer=3)
    again = network.onnx_model().SerializeToString()
    assert again == (widened.engine / kind / "model.onnx").read_bytes()


def test_every_weight_is_the_checkpoints_own_bytes(widened: Built) -> None:
    checkpoint = Checkpoint(widened.checkpoint)
    expected = {"llm": checkpoint.text_state(), "visual": checkpoint.vision_state()}
    for kind, state in expected.items():
        model = widened.engine / kind / "model.onnx"
        weights = {weight.name: weight for weight in external_weights(model, checkpoint)}
        assert set(weights) == set(state)
        for name, tensor in state.items():
            assert weights[name].data.dtype == np.uint16  # bfloat16 bits
            assert weights[name].data.ctypes.data == tensor.data_ptr()


def test_another_checkpoint_is_refused(widened: Built, full: Built) -> None:
    model = full.engine / "llm" / "model.onnx"
    with pytest.raises(EngineError, match=r"not in .*; rebuild the engine"):
        list(external_weights(model, Checkpoint(widened.checkpoint)))


def test_a_4b_checkpoint_exports_small_and_in_little_memory(tmp_path: Path) -> None:
    checkpoint, engine = tmp_path / "checkpoint", tmp_path / "engine"
    save_sparse_4b(checkpoint)
    command = [sys.executable, "-c", _MEASURED_BUILD, str(checkpoint), str(engine)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 < 1.5e9
    written = sum(path.stat().st_size for path in engine.rglob("*") if path.is_file())
    assert written < 0.001 * Checkpoint(checkpoint).nbytes
    llm = load(engine, "llm").graph
    assert sum(node.op_type == "Attention" for node in llm.node) == 36
    assert len(llm.initializer) < 600
