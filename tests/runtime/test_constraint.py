"""Sampling under a constraint, through the scheduler, on a real (random) language model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from edgevlm.runtime.response import FinishReason
from tests.models.random_model import VOCABULARY, RandomModel, make_random_model
from tests.runtime.test_scheduler import Harness, make_request


class Countdown:
    """Allows one token after the other, then nothing: the tokens 9, 8, 7."""

    def __init__(self, tokens: tuple[int, ...] = (9, 8, 7)) -> None:
        self._left = list(tokens)
        self.taken: list[int] = []

    @property
    def finished(self) -> bool:
        return not self._left

    def allowed(self) -> Tensor:
        mask = torch.zeros(VOCABULARY, dtype=torch.bool)
        mask[self._left[:1]] = True
        return mask

    def accept(self, token: int) -> None:
        self.taken.append(token)
        self._left.remove(token)


class Stuck(Countdown):
    """Allows one token, then none, and never says that it is finished."""

    finished = False  # type: ignore[assignment]


@pytest.fixture(scope="module")
def model() -> RandomModel:
    return make_random_model(seed=3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_only_allowed_tokens_are_chosen_and_neighbours_are_not_touched(
    model: RandomModel, temperature: float
) -> None:
    made: list[Countdown] = []

    def make() -> Countdown:
        made.append(Countdown())
        return made[-1]

    free = make_request("4 5")
    bound = replace(make_request("4 5", sampling={"temperature": temperature}), constraint=make)
    alone = Harness(model).run([free])[0]
    answers = Harness(model).run([free, bound, free])
    assert answers[1].token_ids == (9, 8, 7) == tuple(made[0].taken)
    assert answers[1].finish_reason is FinishReason.END
    assert answers[0].token_ids == answers[2].token_ids == alone.token_ids


def test_a_constraint_that_allows_nothing_is_named(model: RandomModel) -> None:
    request = replace(make_request("4 5"), constraint=lambda: Stuck((9,)))
    answer = Harness(model).run([request])[0]
    assert answer.finish_reason is FinishReason.ERROR
    assert answer.error is not None and "grammar" in answer.error


def test_logprobs_come_with_each_token_but_the_end(model: RandomModel) -> None:
    harness = Harness(model)
    harness.scheduler.submit(0, make_request("4 5", sampling={"logprobs": 2, "max_tokens": 3}))
    entries = []
    while not harness.scheduler.idle:
        for event in harness.scheduler.step():
            entries += list(getattr(event, "logprobs", ()))
    greedy = Harness(model).run([make_request("4 5", sampling={"max_tokens": 3})])[0]
    assert [entry.token_id for entry in entries] == list(greedy.token_ids)
    assert all(entry.top[0] == (entry.token_id, entry.logprob) for entry in entries)
