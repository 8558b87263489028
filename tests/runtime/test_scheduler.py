"""Continuous batching on a real (random) language model: answers never depend on neighbours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.core import EngineLimits, PipelineIO, RequestError
from edgevlm.pruners import PruneReport
from edgevlm.runtime.engines import DecodeBatch
from edgevlm.runtime.engines.torch_llm import TorchLLMEngine
from edgevlm.runtime.prompt import PreparedPrompt
from edgevlm.runtime.request import ChatRequest, Message, SamplingParams
from edgevlm.runtime.response import FinishReason, Response, TextDelta
from edgevlm.runtime.scheduler import Scheduler
from edgevlm.runtime.sequence import Sequence
from edgevlm.runtime.timing import RequestTiming
from tests.models.random_model import VOCABULARY, RandomModel, make_random_model

LIMITS = EngineLimits(max_input_len=24, max_kv_len=40, max_batch=4)


class Harness:
    """A scheduler over token-id prompts: request text ``"3 5 7"`` is the prompt [3, 5, 7]."""

    def __init__(self, model: RandomModel, max_batch: int = 4) -> None:
        state = {name: weight.clone() for name, weight in model.text_state().items()}
        text = model.config.text
        self.engine = TorchLLMEngine(
            text, LIMITS, state, model.embedding_table(), torch.float32, torch.device("cpu")
        )
        self.moves = 0
        self.batches: list[int] = []
        self.decode, self.move = self.engine.decode, self.engine.move_slot
        self.engine.decode = self._decode  # type: ignore[method-assign]
        self.engine.move_slot = self._move  # type: ignore[method-assign]
        self.scheduler = Scheduler(self.engine, self._admit, [0], max_batch)

    def run(self, requests: list[ChatRequest]) -> list[Response]:
        for index, request in enumerate(requests):
            self.scheduler.submit(index, request)
        done: dict[int, Response] = {}
        text = dict.fromkeys(range(len(requests)), "")
        while not self.scheduler.idle:
            for event in self.scheduler.step():
                if isinstance(event, TextDelta):
                    text[event.index] += event.text
                else:
                    done[event.index] = event
        for index, response in done.items():
            assert response.text == text[index]
        return [done[index] for index in range(len(requests))]

    def _decode(self, batch: DecodeBatch) -> Tensor:
        self.batches.append(len(batch))
        return self.decode(batch)

    def _move(self, source: int, target: int, length: int) -> None:
        self.moves += 1
        self.move(source, target, length)

    def _admit(
        self, slot: int, index: int, request: ChatRequest, timing: RequestTiming
    ) -> tuple[Sequence, Tensor]:
        content = request.messages[0].content
        assert isinstance(content, str)
        if content == "refuse":
            raise RequestError("refused")
        ids = torch.tensor([int(word) for word in content.split()])
        embeds = self.engine.embedding_table[ids]
        positions = torch.arange(len(ids)).expand(3, -1)
        io = PipelineIO(ids, embeds, embeds.new_zeros(3, *embeds.shape), positions, (), len(ids))
        sequence = Sequence(
            index=index,
            request=request,
            prompt=PreparedPrompt(content, ids, positions, len(ids), (), (), 0.0, 0.0, ()),
            report=PruneReport("dart", 0.25, 0, len(ids), torch.empty(0, dtype=torch.int64)),
            length=len(ids),
            position=len(ids),
            budget=min(request.sampling.max_tokens, LIMITS.max_kv_len - len(ids) + 1),
            timing=timing,
            decode=lambda tokens: "".join(f"<{token}>" for token in tokens),
            eos_ids=frozenset({1}),
        )
        return sequence, self.engine.prefill(slot, io)


def make_request(prompt: str, **changes: Any) -> ChatRequest:
    sampling = {"temperature": 0.0, "max_tokens": 8, **changes.pop("sampling", {})}
    return ChatRequest((Message("user", prompt),), SamplingParams(**sampling), **changes)


@pytest.fixture(scope="module")
def model() -> RandomModel:
    return make_random_model(seed=3)


prompts = st.lists(st.integers(2, VOCABULARY - 1), min_size=1, max_size=12).map(
    lambda ids: " ".join(map(str, ids))
)
requests = st.builds(
    lambda prompt, tokens, seed: make_request(
        prompt,
        sampling={"max_tokens": tokens, "temperature": 1.0 if seed else 0.0, "seed": seed},
    ),
    prompts,
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 5)),
)


@given(batch=st.lists(requests, min_size=1, max_size=9))
@settings(max_examples=15, deadline=None)
def test_answers_equal_those_given_alone(model: RandomModel, batch: list[ChatRequest]) -> None:
    together = Harness(model).run(batch)
    alone = Harness(model, max_batch=1)
    for request, response in zip(batch, together, strict=True):
        expected = alone.run([request])[0]
        assert response.token_ids == expected.token_ids
        assert response.finish_reason == expected.finish_reason


def test_prompts_may_begin_to_decode_together(model: RandomModel) -> None:
    harness = Harness(model)
    batch = [make_request(prompt) for prompt in ("3 5 7", "9 2", "4 4 8 6")]
    for index, request in enumerate(batch):
        harness.scheduler.submit(index, request)
    events = [event for _ in batch for event in harness.scheduler.step(decode=False)]
    assert harness.batches == []
    while not harness.scheduler.idle:
        events += harness.scheduler.step()
    assert harness.batches[0] == sum(not isinstance(e, Response) for e in events[:3])
    answers = {e.index: e.token_ids for e in events if isinstance(e, Response)}
    alone = Harness(model, max_batch=1).run(batch)
    assert [answers[index] for index in range(3)] == [r.token_ids for r in alone]


def test_decode_computes_active_slots_only_and_moves_few(model: RandomModel) -> None:
    harness = Harness(model)
    lengths = [2, 9, 3, 9, 5, 7]
    batch = [make_request("5 6 7", sampling={"max_tokens": n}) for n in lengths]
    responses = harness.run(batch)
    assert [len(r.token_ids) for r in responses] == lengths
    # Every decoded row was an active one: the first token of each answer comes from prefill.
    assert sum(harness.batches) == sum(lengths) - len(lengths)
    assert max(harness.batches) == 4
    assert harness.moves <= 2


def test_a_refused_request_does_not_disturb_the_others(model: RandomModel) -> None:
    batch = [make_request("4 5"), make_request("refuse"), make_request("6 7")]
    responses = Harness(model).run(batch)
    assert [r.finish_reason for r in responses] == [
        FinishReason.LENGTH,
        FinishReason.ERROR,
        FinishReason.LENGTH,
    ]
    assert responses[1].error == "refused"


def test_end_of_sequence_is_not_part_of_the_text(model: RandomModel) -> None:
    harness = Harness(model)
    greedy = harness.run([make_request("4 5")])[0].token_ids
    harness.engine._model.lm_head.weight[1] = 100 * harness.engine._model.lm_head.weight[greedy[0]]
    response = harness.run([make_request("4 5")])[0]
    assert (response.token_ids, response.text) == ((1,), "")
    assert response.finish_reason is FinishReason.END


def test_generation_ends_with_the_kv_cache(model: RandomModel) -> None:
    prompt = " ".join(["7"] * 24)
    response = Harness(model).run([make_request(prompt, sampling={"max_tokens": 100})])[0]
    assert len(response.token_ids) == LIMITS.max_kv_len - 24 + 1
    assert response.finish_reason is FinishReason.LENGTH


def test_stop_strings_end_the_answer(model: RandomModel) -> None:
    full = Harness(model).run([make_request("4 5")])[0]
    stop = f"<{full.token_ids[3]}>"
    response = Harness(model).run([make_request("4 5", stop=(stop,))])[0]
    assert response.finish_reason is FinishReason.STOP
    assert response.text == full.text[: full.text.index(stop)]


def test_cancelling_frees_the_slot_for_the_next_step(model: RandomModel) -> None:
    harness = Harness(model, max_batch=1)
    for index in range(3):
        harness.scheduler.submit(index, make_request(f"{index + 2} 9"))
    harness.scheduler.step()
    running = harness.scheduler.cancel(0)
    waiting = harness.scheduler.cancel(2)
    assert running is not None and running.finish_reason is FinishReason.CANCELLED
    assert len(running.token_ids) == 2
    assert waiting is not None and waiting.token_ids == ()
    assert harness.scheduler.cancel(7) is None
    events = [e for _ in range(8) for e in harness.scheduler.step()]
    finished = [e for e in events if isinstance(e, Response)]
    assert [r.index for r in finished] == [1]
    assert harness.scheduler.idle


def test_nan_logits_fail_the_request_with_a_remedy(model: RandomModel) -> None:
    harness = Harness(model)
    harness.engine._model.norm.weight[:] = float("nan")
    response = harness.run([make_request("4 5")])[0]
    assert response.finish_reason is FinishReason.ERROR
    assert response.error is not None and "bfloat16" in response.error
