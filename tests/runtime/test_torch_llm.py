"""The torch backend's language model, plain and fused: one function, whatever computes it."""

from __future__ import annotations

import os

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported: kernels run on the CPU

from edgevlm.core import EngineLimits, PipelineIO, RequestError
from edgevlm.runtime.engines import DecodeBatch, StagedPrefill, torch_captured, torch_fused
from edgevlm.runtime.engines.kernels import decode_attention
from edgevlm.runtime.engines.torch_fused import FusedNetwork
from tests.models.random_model import EXPERTS, RandomModel, make_random_model

from .llm_engines import answer, make_batch, make_engine, make_prompt


@pytest.fixture(scope="module", params=["dense", "experts"])
def model(request: pytest.FixtureRequest) -> RandomModel:
    return make_random_model(seed=4, experts=EXPERTS if request.param == "experts" else None)


@pytest.mark.parametrize("length", [1, 17, 70])
def test_fused_equals_plain(model: RandomModel, length: int) -> None:
    prompts = [make_prompt(length, image=(0, length)), make_prompt(5, seed=1)]
    plain = answer(make_engine(model, fused=False), prompts)
    fused = answer(make_engine(model, fused=True), prompts)
    for ours, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)


def test_kernels_equal_plain(model: RandomModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_fused, "usable", lambda tensor: True)
    # Little work, as the interpreter is slow; yet too many rows for the kernels of few.
    monkeypatch.setattr(decode_attention, "_PROGRAMS", 4)
    monkeypatch.setattr(torch_captured, "prompt_bucket", lambda rows: 17)
    prompts = [make_prompt(11, image=(0, 7)), make_prompt(5, seed=1)]
    plain, kernels = (make_engine(model, layers=2, fused=fused) for fused in (False, True))
    assert type(kernels._executor._network.steps).__name__ == "TritonSteps"
    for ours, theirs in zip(answer(kernels, prompts, 1), answer(plain, prompts, 1), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)
    alone = make_batch((12,))
    torch.testing.assert_close(kernels.decode(alone), plain.decode(alone), atol=2e-4, rtol=1e-4)


def test_a_slot_does_not_show_in_the_result(model: RandomModel) -> None:
    engine = make_engine(model, fused=True)
    prompts = [make_prompt(9, seed=seed) for seed in range(3)]
    together = answer(engine, prompts)
    batch = make_batch(tuple(map(len, prompts)))
    for slot, io in enumerate(prompts):
        alone = make_engine(model, fused=True)
        torch.testing.assert_close(alone.prefill(0, io), together[slot])
        one = type(batch)(batch.embeds[slot : slot + 1], batch.positions[slot : slot + 1], (9,))
        torch.testing.assert_close(alone.decode(one)[0], together[3][slot], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("fused", [False, True])
def test_a_moved_slot_goes_on(model: RandomModel, fused: bool) -> None:
    engine = make_engine(model, fused=fused)
    engine.prefill(0, make_prompt(6))
    expected = engine.decode(make_batch((6,)))
    engine.prefill(2, make_prompt(6))
    engine.prefill(0, make_prompt(20, seed=3))
    engine.move_slot(2, 0, 6)
    torch.testing.assert_close(engine.decode(make_batch((6,))), expected)


def test_batches_beyond_eight_are_padded_without_a_trace(model: RandomModel) -> None:
    limits = EngineLimits(max_input_len=8, max_kv_len=20, max_batch=13)
    plain, fused = (make_engine(model, limits=limits, fused=fused) for fused in (False, True))
    prompts = [make_prompt(4, seed=seed) for seed in range(11)]
    for ours, theirs in zip(answer(fused, prompts), answer(plain, prompts), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)


def test_a_prompt_as_long_as_the_cache(model: RandomModel) -> None:
    limits = EngineLimits(max_input_len=33, max_kv_len=33, max_batch=2)
    plain, fused = (make_engine(model, limits=limits, fused=fused) for fused in (False, True))
    first, other = make_prompt(33), make_prompt(32, seed=1)
    for engine in (plain, fused):
        engine.prefill(1, other)
        engine.prefill(0, first)  # what pads it must not reach the other slot
    batch = make_batch((32, 32))
    torch.testing.assert_close(fused.decode(batch), plain.decode(batch), atol=2e-4, rtol=1e-4)


def test_tied_weights_are_held_once() -> None:
    tied = make_random_model(tied=True)
    table = tied.embedding_table()
    state = {**tied.text_state(), "lm_head.weight": table}
    for fused in (False, True):
        engine = type(make_engine(tied))(
            tied.config.text,
            EngineLimits(8, 8, 1),
            state,
            table,
            torch.bfloat16,
            torch.device("cpu"),
            fused=fused,
        )
        hidden = engine._executor.norm(engine.embedding_table[:1])
        assert hidden.dtype == torch.bfloat16
        network = getattr(engine, "_model", None) or engine._executor._network.weights
        head = network.lm_head
        weight = head if isinstance(head, torch.Tensor) else head.weight
        assert engine.embedding_table.data_ptr() == weight.data_ptr()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_two_stages_with_all_rows_are_one(model: RandomModel, fused: bool, layers: int) -> None:
    engine = make_engine(model, fused=fused)
    assert isinstance(engine, StagedPrefill)
    io = make_prompt(23, image=(2, 20))
    expected = engine.prefill(0, io)
    step = engine.decode(make_batch((23,)))
    early = engine.begin(1, io, layers)
    found = engine.finish(1, early.io, layers, torch.arange(23))
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    engine.move_slot(1, 0, 23)
    torch.testing.assert_close(engine.decode(make_batch((23,))), step, atol=2e-4, rtol=1e-4)


def test_early_states_agree(model: RandomModel) -> None:
    plain, fused = (make_engine(model, fused=fused).begin(0, make_prompt(9), 2) for fused in (0, 1))
    assert plain.layers == fused.layers == 2
    assert plain.keys.shape == (9, 2 * 16)
    for name in ("keys", "normed"):
        ours, theirs = getattr(fused, name), getattr(plain, name)
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(fused.io.embeds, plain.io.embeds, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("layers", [0, 4])
def test_a_layer_that_is_not_there(model: RandomModel, layers: int) -> None:
    with pytest.raises(RequestError, match=r"4 decoder layers; .* after 1 to 3 of them"):
        make_engine(model).begin(0, make_prompt(5), layers)


def test_the_fused_network_keeps_no_weights_apart(model: RandomModel) -> None:
    state = model.text_state()
    limits = EngineLimits(8, 8, 1)
    cpu = torch.device("cpu")
    network = FusedNetwork(model.config.text, limits, state, torch.float32, cpu, 8)
    layer = network.weights.layers[1]
    names = ("q_proj", "k_proj", "v_proj")
    parts = [state[f"layers.1.self_attn.{name}.weight"] for name in names]
    assert torch.equal(layer.qkv, torch.cat(parts))


def test_nothing_reads_a_value_on_the_host() -> None:
    model = make_random_model(seed=4)
    # Else no CUDA graph could be captured, and the host would wait more than once a step.
    with FakeTensorMode(allow_non_fake_inputs=True):  # tensors without values
        engine = make_engine(model, fused=True)
        assert engine.prefill(0, make_fake_prompt()).shape == (100,)
        batch = DecodeBatch(torch.randn(2, 64), torch.zeros(2, dtype=torch.int64), (9, 5))
        assert engine.decode(batch).shape == (2, 100)


def make_fake_prompt() -> PipelineIO:
    rows = torch.zeros(9, dtype=torch.int64)
    return PipelineIO(
        rows, torch.randn(9, 64), torch.zeros(3, 9, 64), rows.expand(3, -1), (), next_position=9
    )
