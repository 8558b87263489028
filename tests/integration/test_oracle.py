"""Both backends answer as ``transformers`` does, unpruned and over pruned prompts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners import VisualPrunerConfig, create_visual_pruner
from edgevlm.runtime import ChatRequest, Message, Runtime, SamplingParams
from edgevlm.runtime.embeddings import assemble
from edgevlm.runtime.prompt import PreparedPrompt

from .conftest import BACKENDS, ask, samples
from .oracle import Oracle

TEXT_ONLY = ChatRequest(
    (Message("user", "How many circles are there?"),), SamplingParams(temperature=0.0, max_tokens=4)
)


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def assembled(runtime: Runtime, prompt: PreparedPrompt):  # type: ignore[no-untyped-def]
    """The prompt as the runtime assembles it, before pruning."""
    features = runtime._vision.encode(prompt.media) if runtime._vision else []
    return assemble(runtime._llm, prompt, features, runtime._config.num_deepstack)


@pytest.mark.parametrize("backend", BACKENDS)
def test_logits_equal_transformers(
    backend: str, oracle: Oracle, runtimes: dict[str, Runtime]
) -> None:
    runtime = runtimes[backend]
    for request in (*map(ask, samples(8)), TEXT_ONLY):
        io = assembled(runtime, oracle.processor.prepare(request))
        logits = runtime._llm.prefill(1, io)
        torch.testing.assert_close(logits, oracle.logits(request), atol=1e-3, rtol=0)


def test_fifty_greedy_answers_are_those_of_transformers_and_right(
    oracle: Oracle, runtimes: dict[str, Runtime]
) -> None:
    asked = samples(50)
    requests = [ask(sample) for sample in asked]
    expected = [oracle.answer(request) for request in requests]
    for backend in BACKENDS:
        responses = runtimes[backend].generate(requests)
        assert [r.text for r in responses] == expected
    assert expected == [sample.answer for sample in asked]


@given(
    number=st.integers(0, 7),
    ratio=st.floats(0.05, 0.95),
    pivots=st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(any),
)
@settings(max_examples=12, deadline=None)
def test_pruned_prefill_equals_transformers_over_the_kept_rows(
    oracle: Oracle,
    runtimes: dict[str, Runtime],
    number: int,
    ratio: float,
    pivots: tuple[int, int],
) -> None:
    request = ask(samples(8)[number])
    options = {"pivot_image_tokens": pivots[0], "pivot_text_tokens": pivots[1]}
    pruner = create_visual_pruner(VisualPrunerConfig(True, "dart", ratio, options=options))
    for backend in BACKENDS:
        io = assembled(runtimes[backend], oracle.processor.prepare(request))
        pruned, report = pruner.prune(io)
        assert report.skipped is None and len(pruned) < len(io)
        logits = runtimes[backend]._llm.prefill(0, pruned)
        torch.testing.assert_close(logits, oracle.logits_of_rows(pruned), atol=1e-3, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_do_not_depend_on_neighbours_or_pruning_next_door(
    backend: str, runtimes: dict[str, Runtime]
) -> None:
    runtime = runtimes[backend]
    half = {"algorithm": "dart", "reduction_ratio": 0.5}
    requests = [
        ask(sample, visual_pruning=half if place % 3 == 0 else None)
        for place, sample in enumerate(samples(12, seed=9))
    ]
    alone = [runtime.generate([request])[0] for request in requests]
    together = runtime.generate(requests)
    for one, other in zip(alone, together, strict=True):
        assert one.text == other.text
        assert one.report is not None and other.report is not None
        assert one.report.kept_positions == other.report.kept_positions


def test_decode_goes_on_at_the_unpruned_position(
    oracle: Oracle, runtimes: dict[str, Runtime]
) -> None:
    """The second token after a pruned prefill, against ``transformers`` over rows + that token."""
    from dataclasses import replace

    from edgevlm.runtime.embeddings import embed_tokens
    from edgevlm.runtime.engines import DecodeBatch

    request = ask(samples(8)[5])
    pruner = create_visual_pruner(VisualPrunerConfig(True, "dart", 0.5))
    for backend in BACKENDS:
        llm = runtimes[backend]._llm
        io, _ = pruner.prune(assembled(runtimes[backend], oracle.processor.prepare(request)))
        token = llm.prefill(0, io).argmax()[None]
        row = embed_tokens(llm, token)
        batch = DecodeBatch(row, torch.tensor([io.next_position]), (len(io),))
        longer = replace(
            io,
            token_ids=torch.cat([io.token_ids, token]),
            embeds=torch.cat([io.embeds, row]),
            deepstack=torch.cat([io.deepstack, torch.zeros_like(io.deepstack[:, :1])], dim=1),
            positions=torch.cat([io.positions, torch.full((3, 1), io.next_position)], dim=1),
        )
        expected = oracle.logits_of_rows(longer)
        torch.testing.assert_close(llm.decode(batch)[0], expected, atol=1e-3, rtol=0)
