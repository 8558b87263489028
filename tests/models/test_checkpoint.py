"""Opening checkpoints: what is read, what is refused, and what it costs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from edgevlm.core import CheckpointError
from edgevlm.models import TextModel, VisionTower
from edgevlm.models.checkpoint import Checkpoint
from edgevlm.models.safetensors_file import SafetensorsFile
from tests.models.random_model import RandomModel, make_random_model

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def model() -> RandomModel:
    return make_random_model()


@pytest.fixture
def saved(model: RandomModel, tmp_path: Path) -> Path:
    model.reference.save_pretrained(tmp_path / "single")
    return tmp_path / "single"


@pytest.fixture
def sharded(model: RandomModel, tmp_path: Path) -> Path:
    model.reference.save_pretrained(tmp_path / "sharded", max_shard_size="100KB")
    return tmp_path / "sharded"


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("layout", ["saved", "sharded"])
def test_states_are_the_saved_weights_in_our_names(
    model: RandomModel, layout: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(layout)
    assert (path / WEIGHTS).exists() == (layout == "saved")
    checkpoint = Checkpoint(path)
    assert_same(checkpoint.text_state(), model.text_state())
    assert_same(checkpoint.vision_state(), model.vision_state())
    assert torch.equal(checkpoint.embedding_table(), model.embedding_table())
    TextModel(checkpoint.config.text).load_state_dict(checkpoint.text_state())
    VisionTower(checkpoint.config.vision).load_state_dict(checkpoint.vision_state())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_dtype_is_read_in_place(dtype: torch.dtype, tmp_path: Path) -> None:
    tied = make_random_model(tied=True)
    tied.reference.to(dtype).save_pretrained(tmp_path)
    checkpoint = Checkpoint(tmp_path)
    state = checkpoint.text_state()
    assert "lm_head.weight" not in checkpoint.tensors
    assert state["lm_head.weight"] is checkpoint.embedding_table()
    data = (tmp_path / WEIGHTS).read_bytes()
    for info in checkpoint.tensors.values():
        tensor = checkpoint.tensor(info.name)
        assert (tensor.dtype, tuple(tensor.shape)) == (dtype, info.shape)
        raw = bytes(tensor.flatten().view(torch.uint8).numpy())
        assert raw == data[info.offset : info.offset + info.nbytes]


def test_a_tensor_is_a_view_of_one_mapping_and_never_written_back(saved: Path) -> None:
    before = (saved / WEIGHTS).read_bytes()
    checkpoint = Checkpoint(saved)
    first, second = (checkpoint.info(name) for name in sorted(checkpoint.tensors)[:2])
    a, b = checkpoint.tensor(first.name), checkpoint.tensor(second.name)
    assert a.data_ptr() - b.data_ptr() == first.offset - second.offset
    assert checkpoint.tensor(first.name) is a
    a.zero_()
    assert (saved / WEIGHTS).read_bytes() == before


def test_the_bare_models_names_are_understood(model: RandomModel, tmp_path: Path) -> None:
    model.reference.model.save_pretrained(tmp_path)
    config = model.reference.config.to_dict() | {"tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    checkpoint = Checkpoint(tmp_path)
    assert not any(name.startswith("model.") for name in checkpoint.tensors)
    assert_same(checkpoint.vision_state(), model.vision_state())
    expected = model.text_state() | {"lm_head.weight": model.embedding_table()}
    assert_same(checkpoint.text_state(), expected)


def truncate(path: Path) -> None:
    data = (path / WEIGHTS).read_bytes()
    (path / WEIGHTS).write_bytes(data[:-10])


def overwrite(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(data) and None


def remove(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def edit_config(**changes: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        raw = json.loads((path / "config.json").read_text())
        raw["text_config"].update(changes)
        (path / "config.json").write_text(json.dumps(raw))

    return damage


def quantise(path: Path) -> None:
    checkpoint = Checkpoint(path)
    tensors = {name: checkpoint.tensor(name).clone() for name in checkpoint.tensors}
    name = "model.language_model.layers.0.mlp.up_proj.weight"
    save_file(tensors | {name: tensors[name].to(torch.float8_e4m3fn)}, path / WEIGHTS)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("config.json"), r"config.json: no such file"),
        (remove(WEIGHTS), r"neither model.safetensors nor model.safetensors.index.json"),
        (truncate, r"model.safetensors: truncated or damaged \(it is .* describes"),
        (overwrite(WEIGHTS, b""), r"model.safetensors: truncated or damaged"),
        (overwrite(WEIGHTS, b"\x05" + b"\0" * 7 + b"hello"), r"damaged \(its header is not JSON"),
        (overwrite(WEIGHTS, b"\x02" + b"\0" * 7 + b"[]"), r"its header is not safetensors'"),
        (edit_config(num_hidden_layers=5), r"tensor 'model.language_model.layers.4.*is missing"),
        (edit_config(intermediate_size=8), r"config.json describes \[8, 64\]"),
        (quantise, r"float8_e4m3fn; use the unquantised checkpoint"),
    ],
)
def test_damage_is_named_with_its_file(
    saved: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(saved)
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint(saved).text_state()
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{}", r"index.json: not a safetensors index"),
        ("[1", r"index.json: not a safetensors index"),
        ('{"weight_map": {"a": "../a.safetensors"}}', r"outside the checkpoint directory"),
        ('{"weight_map": {"a": "absent.safetensors"}}', r"absent.safetensors: no such file"),
    ],
)
def test_a_bad_index_is_named(sharded: Path, index: str, message: str) -> None:
    (sharded / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(sharded)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="absent: no such directory"):
        Checkpoint(tmp_path / "absent")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_cut_anywhere_is_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / WEIGHTS
    save_file({"a": torch.ones(3, 5), "b": torch.ones(7, dtype=torch.int8)}, path)
    whole = path.read_bytes()
    SafetensorsFile(path)
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        SafetensorsFile(path)


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 186), value=st.integers(0, 255))
def test_a_changed_byte_never_escapes_as_another_error(
    at: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("changed") / WEIGHTS
    save_file({"a": torch.ones(3, 5), "b": torch.ones(7, dtype=torch.int8)}, path)
    whole = bytearray(path.read_bytes())
    whole[at] = value
    path.write_bytes(whole)
    try:
        file = SafetensorsFile(path)
    except CheckpointError:
        return
    for info in file.tensors.values():
        assert file.tensor(info).numel() * info.dtype.itemsize == info.nbytes


def test_a_misaligned_tensor_is_still_right(tmp_path: Path) -> None:
    values = torch.arange(6, dtype=torch.float32)
    header = b'{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
    assert (8 + len(header)) % 4
    raw = bytes(values.view(torch.uint8).numpy())
    (tmp_path / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + raw)
    file = SafetensorsFile(tmp_path / WEIGHTS)
    tensor = file.tensor(file.tensors["x"])
    assert tensor.data_ptr() % 4 == 0
    assert torch.equal(tensor, values.view(2, 3))


def test_the_fingerprint_follows_content_not_place(saved: Path, sharded: Path) -> None:
    first = Checkpoint(saved).fingerprint
    assert len(first) == 64
    moved = saved.rename(saved.parent / "moved")
    assert Checkpoint(moved).fingerprint == first
    assert Checkpoint(sharded).fingerprint != first

    weights = moved / WEIGHTS
    whole = weights.read_bytes()
    for at in (-1, len(whole) // 2):
        changed = bytearray(whole)
        changed[at] ^= 1
        weights.write_bytes(changed)
        assert Checkpoint(moved).fingerprint != first
    weights.write_bytes(whole)
    assert Checkpoint(moved).fingerprint == first

    edit_config(max_position_embeddings=5)(moved)
    assert Checkpoint(moved).fingerprint != first


def test_the_fingerprint_covers_all_of_a_long_header(saved: Path) -> None:
    def fingerprint(name: str) -> str:
        size = 10**8
        entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
        header = "{" + " " * 200_000 + json.dumps({name: entry})[1:]
        with (saved / WEIGHTS).open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header.encode())
            file.truncate(8 + len(header) + size)
        return Checkpoint(saved).fingerprint

    assert fingerprint("a") != fingerprint("b")


def test_the_fingerprint_of_a_huge_checkpoint_is_quick(saved: Path) -> None:
    size = 64 * 10**9
    header = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    with (saved / WEIGHTS).open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + size)
    start = time.monotonic()
    checkpoint = Checkpoint(saved)
    assert checkpoint.nbytes > size
    assert len(checkpoint.fingerprint) == 64
    assert time.monotonic() - start < 1
