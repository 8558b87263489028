"""The TensorRT engines over the stand-in: slots, chunks, graphs, memory."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgevlm.core import EngineError, RequestError
from edgevlm.runtime.embeddings import embed_tokens
from edgevlm.runtime.engines import DecodeBatch, LLMEngine, open_engines
from edgevlm.runtime.engines.tensorrt_llm import TensorRTLLMEngine
from edgevlm.runtime.engines.tensorrt_vision import TensorRTVisionEngine
from edgevlm.runtime.parity import ChunkedPrefill
from tests.fakes.tensorrt import FakeDevice

from .conftest import CHECKPOINT, Install, build
from .prompts import open_llm, prompt, reference, vision_batch

TOLERANCE = {"atol": 0.06, "rtol": 0.02}


def wide(io: object) -> object:
    return replace(io, embeds=io.embeds.float(), deepstack=io.deepstack.float())  # type: ignore


def step(engine: LLMEngine, tokens: list[int], lengths: tuple[int, ...]) -> torch.Tensor:
    embeds = embed_tokens(engine, torch.tensor(tokens))
    return engine.decode(DecodeBatch(embeds, torch.tensor(lengths), lengths))


def test_slots_of_different_lengths_decode_like_the_reference(
    thor_engine: Path, device: FakeDevice
) -> None:
    engine, expected = open_llm(thor_engine), reference()
    lengths = (7, 40, 1)
    for slot, length in enumerate(lengths):
        io = prompt(length, seed=slot)
        torch.testing.assert_close(
            engine.prefill(slot, io), expected.prefill(slot, wide(io)), **TOLERANCE
        )
    for _ in range(3):
        found = step(engine, [5, 6, 7], lengths)
        torch.testing.assert_close(found, step(expected, [5, 6, 7], lengths), **TOLERANCE)
        lengths = tuple(length + 1 for length in lengths)
    assert (device.captures, device.replays) == (1, 2)


def test_a_slot_is_reused_and_moved(thor_engine: Path, device: FakeDevice) -> None:
    engine, expected = open_llm(thor_engine), reference()
    engine.prefill(3, prompt(100, seed=1))  # leaves rows beyond those of the next prompt
    io = prompt(9, seed=2)
    wanted = expected.prefill(0, wide(io))
    torch.testing.assert_close(engine.prefill(3, io), wanted, **TOLERANCE)
    engine.prefill(0, prompt(50, seed=3))
    engine.move_slot(3, 0, 9)
    torch.testing.assert_close(step(engine, [4], (9,)), step(expected, [4], (9,)), **TOLERANCE)


def test_a_prompt_in_chunks_is_the_prompt(thor_engine: Path, device: FakeDevice) -> None:
    engine = open_llm(thor_engine)
    assert isinstance(engine, ChunkedPrefill)
    io = prompt(30)
    whole = engine.prefill(0, io)
    for begin, end in ((0, 11), (11, 12), (12, 30)):
        part = replace(
            io,
            token_ids=io.token_ids[begin:end],
            embeds=io.embeds[begin:end],
            deepstack=io.deepstack[:, begin:end],
            positions=io.positions[:, begin:end],
        )
        last = engine.prefill_chunk(2, part, begin)
    torch.testing.assert_close(last, whole, **TOLERANCE)


def test_one_graph_per_batch_size_and_a_new_one_when_an_address_changes(
    thor_engine: Path, device: FakeDevice
) -> None:
    engine = open_llm(thor_engine)
    assert isinstance(engine, TensorRTLLMEngine)
    for slot in range(2):
        engine.prefill(slot, prompt(5, seed=slot))
    first = step(engine, [1, 2], (5, 5))
    step(engine, [1], (5,))
    assert (device.captures, device.replays) == (2, 0)
    torch.testing.assert_close(step(engine, [1, 2], (5, 5)), first)
    assert (device.captures, device.replays) == (2, 1)
    # The caches move: every graph is outdated, and what they hold must still be found.
    engine._caches = {name: cache.clone() for name, cache in engine._caches.items()}
    engine._bind_decode(4)
    torch.testing.assert_close(step(engine, [1, 2], (5, 5)), first)
    assert (device.captures, device.replays) == (3, 1)
    torch.testing.assert_close(step(engine, [1, 2], (5, 5)), first)
    assert (device.captures, device.replays) == (3, 2)


def test_a_prompt_longer_than_the_profile_is_refused(thor_engine: Path, device: FakeDevice) -> None:
    engine = open_llm(thor_engine)
    with pytest.raises(RequestError, match=r"321 tokens.*takes 320 new.*--max-input-len"):
        engine.prefill(0, prompt(321))
    assert engine.prefill(0, prompt(320)).isfinite().all()


def test_images_beyond_the_limit_go_in_several_calls(thor_engine: Path, device: FakeDevice) -> None:
    opened = open_engines(thor_engine / "llm", thor_engine / "visual", None, None)
    engine = opened.vision
    assert isinstance(engine, TensorRTVisionEngine)
    batch = vision_batch(5, 16)
    before = device.eager_runs
    output = engine.encode(batch, attention=True)
    assert device.eager_runs - before == 3  # two, two and one
    one = replace(batch, **{name: value[4:] for name, value in vars(batch).items()})
    alone = engine.encode(one)
    torch.testing.assert_close(output.embeds[4:], alone.embeds, atol=0.02, rtol=0.01)
    torch.testing.assert_close(output.planes[:, 4:], alone.planes, atol=0.02, rtol=0.01)
    assert alone.attention is None
    assert output.attention is not None and output.attention.q.shape == (5, 6, 16, 32)
    with pytest.raises(RequestError, match=r"257 visual tokens.*takes 256.*--max-image-tokens"):
        engine.encode(vision_batch(1, 4 * 257))


@pytest.mark.parametrize("what", ["KV caches", "activations"])
def test_running_out_of_device_memory_is_one_line(
    thor_engine: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    make = {"KV caches": "zeros", "activations": "empty"}[what]

    def refuse(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, make, refuse)
    with pytest.raises(EngineError, match=f"out of device memory: the {what} take .* GB;"):
        open_llm(thor_engine)


def test_a_plan_that_does_not_fit_is_one_line(thor_engine: Path, device: FakeDevice) -> None:
    device.free_bytes = 2**20
    with pytest.raises(EngineError, match=r"model.plan: TensorRT 10.16.1.11 cannot load it: out"):
        open_llm(thor_engine)


def test_compiled_kernels_are_kept_for_this_gpu_and_version(
    install: Install, tmp_path: Path
) -> None:
    install("tensorrt-rtx", "1.7.1.116", "12.0")
    engine = build(tmp_path / "engine", target="tensorrt-rtx", compute_capabilities=("8.9", "12.0"))
    open_llm(engine).prefill(0, prompt(4))
    gc.collect()
    caches = [path.name for path in (engine / "llm").glob("*.bin")]
    assert caches == ["runtime-cache-1.7.1.116-fake-gpu.bin"]
    opened = open_llm(engine)
    assert isinstance(opened, TensorRTLLMEngine)
    assert opened._program._cache._cache.loaded  # type: ignore[union-attr]


def test_what_tensorrt_measured_is_kept_for_this_gpu_and_version(
    install: Install, tmp_path: Path
) -> None:
    install()
    build(tmp_path / "engine", CHECKPOINT)
    folder = tmp_path / ".tensorrt-cache"
    (path,) = folder.iterdir()
    assert path.name == "timing-10.16.1.11-sm11.0-fake-gpu.bin"
    path.write_bytes(b"of another GPU")  # is thrown away, not believed
    build(tmp_path / "engine", CHECKPOINT)
    assert path.read_bytes() == b"11.0"
