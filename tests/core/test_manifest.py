"""A manifest survives its file, and a stale or damaged engine is refused by name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.core import EngineError
from edgevlm.core.decode import DecodeError, decode
from edgevlm.core.limits import EngineLimits
from edgevlm.core.manifest import (
    Backend,
    CheckpointRef,
    FileDigest,
    Manifest,
    Profile,
    Range,
    TensorSpec,
    checkpoint_location,
)
from edgevlm.core.manifest_file import digest, open_manifest, read_manifest, write_manifest


def make_manifest(**changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "kind": "llm",
        "target": "onnxruntime",
        "dtype": "float16",
        "backend": Backend("onnxruntime", "1.32.0"),
        "checkpoint": CheckpointRef("../../checkpoint", "ab" * 32),
        "limits": EngineLimits(max_batch=2),
        "profiles": (Profile("decode", {"batch": Range(1, 2, 2)}),),
        "inputs": (TensorSpec("patches", "float16", ("images", "4*visual_tokens", 1536)),),
        "outputs": (TensorSpec("logits", "float32", ("batch", 100)),),
        "files": {},
        "platform": "linux-aarch64",
        "edgevlm_version": "0.1.0",
    }
    return Manifest(**(fields | changes))


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An engine with one model file."""
    path = tmp_path / "engine" / "llm"
    path.mkdir(parents=True)
    (path / "model.onnx").write_bytes(b"graph")
    write_manifest(make_manifest(files={"model.onnx": digest(path / "model.onnx")}), path)
    return path


def edit(engine: Path, **changes: Any) -> None:
    raw = json.loads((engine / "manifest.json").read_text())
    (engine / "manifest.json").write_text(json.dumps(raw | changes))


names = st.text("abcxyz_0", min_size=1, max_size=8)


@given(
    shape=st.lists(st.one_of(st.integers(1, 10**6), names), max_size=4).map(tuple),
    parity=st.none() | st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False)),
    capability=st.none() | names,
    sources=st.dictionaries(names, names),
)
def test_writing_and_reading_are_inverse(
    shape: tuple[int | str, ...],
    parity: dict[str, float] | None,
    capability: str | None,
    sources: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("engine")
    manifest = make_manifest(
        inputs=(TensorSpec("x", "int64", shape),),
        parity=parity,
        compute_capability=capability,
        plugin_sources=sources,
    )
    write_manifest(manifest, path)
    assert read_manifest(path) == manifest


def test_an_intact_engine_opens(engine: Path) -> None:
    manifest = open_manifest(engine, "llm")
    assert manifest.files["model.onnx"].bytes == 5
    assert manifest.parity is None


def test_a_changed_model_file_is_refused_with_both_digests_and_the_rebuild_command(
    engine: Path,
) -> None:
    before = digest(engine / "model.onnx").sha256[:12]
    (engine / "model.onnx").write_bytes(b"grapf")
    after = digest(engine / "model.onnx").sha256[:12]
    with pytest.raises(EngineError, match=r"model.onnx was changed after the build") as caught:
        open_manifest(engine, "llm")
    message = str(caught.value)
    assert before in message and after in message
    checkpoint = engine.parent.parent / "checkpoint"
    assert message.endswith(
        f"rebuild: edgevlm build --checkpoint {checkpoint} --output {engine.parent}"
        " --target onnxruntime --dtype float16 --max-input-len 3072 --max-kv-len 4096"
        " --max-batch 2 --max-image-tokens 1024 --max-images 4 --importance-layer none"
    )


def test_a_missing_model_file_is_refused(engine: Path) -> None:
    (engine / "model.onnx").unlink()
    with pytest.raises(EngineError, match=r"model.onnx is missing; rebuild: edgevlm build"):
        open_manifest(engine, "llm")


def test_the_other_kind_of_engine_is_refused(engine: Path) -> None:
    with pytest.raises(EngineError, match="this is a 'llm' engine, 'visual' is needed here"):
        open_manifest(engine, "visual")


def test_a_directory_without_a_manifest_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(EngineError, match=r"manifest.json: no such file.*edgevlm build"):
            read_manifest(path)


@pytest.mark.parametrize("text", ["", "{", "\xff"])
def test_what_is_not_json_is_refused(engine: Path, text: str) -> None:
    (engine / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(EngineError, match=r"manifest.json: not valid JSON .*rebuild"):
        read_manifest(engine)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version_is_refused_naming_both(engine: Path, version: object) -> None:
    edit(engine, format_version=version)
    with pytest.raises(EngineError, match=f"format version {version!r}, this edgevlm reads 1;"):
        read_manifest(engine)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "audio"}, "kind is 'audio'; legal values: llm, visual"),
        ({"dtype": "int4"}, "dtype is 'int4'; legal values: float32, float16, bfloat16"),
        ({"target": 5}, "field 'target' is 5; expected str"),
        ({"limits": {"max_batch": 0}}, "max_batch is 0; it must be an integer of at least 1"),
        ({"backend": {"name": "x"}}, "field 'backend.version' is missing"),
        ({"inputs": [{"name": "x"}]}, r"field 'inputs\[0\].dtype' is missing"),
        ({"files": {"a": {"bytes": "1"}}}, "field 'files.a.bytes' is '1'; expected int"),
        ({"parity": "good"}, "field 'parity' is 'good'; expected dict.* or NoneType"),
    ],
)
def test_a_wrong_field_is_named(engine: Path, changes: dict[str, Any], message: str) -> None:
    edit(engine, **changes)
    with pytest.raises(EngineError, match=message):
        read_manifest(engine)


REQUIRED = [
    field.name
    for field in dataclasses.fields(Manifest)
    if (field.default, field.default_factory) == (dataclasses.MISSING,) * 2
]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_is_named(engine: Path, name: str) -> None:
    raw = json.loads((engine / "manifest.json").read_text())
    del raw[name]
    (engine / "manifest.json").write_text(json.dumps(raw))
    with pytest.raises(EngineError, match=f"field {name!r} is missing"):
        read_manifest(engine)


def test_another_checkpoint_is_refused_naming_both(engine: Path) -> None:
    manifest = read_manifest(engine)
    manifest.require_checkpoint(engine, Path("ckpt"), "ab" * 32)
    with pytest.raises(EngineError, match=r"abababababab, but ckpt has cdcdcdcdcdcd; .*rebuild"):
        manifest.require_checkpoint(engine, Path("ckpt"), "cd" * 32)


def test_the_checkpoint_is_found_from_the_engine_and_can_be_overridden(engine: Path) -> None:
    manifest = read_manifest(engine)
    assert manifest.checkpoint_dir(engine) == engine.parent.parent / "checkpoint"
    assert manifest.checkpoint_dir(engine, Path("other")) == Path("other")


def test_a_location_is_relative_only_within_one_tree(tmp_path: Path) -> None:
    engine = tmp_path / "engines" / "x" / "llm"
    assert checkpoint_location(tmp_path / "ckpt", engine) == "../../../ckpt"
    assert checkpoint_location(Path("/models/ckpt"), engine) == "/models/ckpt"


def test_rebuild_command_quotes_paths(engine: Path) -> None:
    command = read_manifest(engine).rebuild_command(Path("/my engines/x/llm"), Path("/c d"))
    assert "--checkpoint '/c d' --output '/my engines/x'" in command


@pytest.mark.parametrize(
    ("kind", "raw"), [(int, True), (int, 1.0), (str, None), (float, "1"), (FileDigest, [])]
)
def test_decoding_never_coerces(kind: type[Any], raw: object) -> None:
    with pytest.raises(DecodeError):
        decode(kind, raw, "x")
