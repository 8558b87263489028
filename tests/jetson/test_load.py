"""The load test in small: eight clients at once, every answer as it is alone."""

from __future__ import annotations

import asyncio

from edgevlm.benchmarks.service_clients import answers_alone, run_clients
from edgevlm.benchmarks.service_mix import distinct_bodies

from .conftest import ROOT
from .live import LiveService


def test_answers_under_load_equal_those_given_alone(tiny: LiveService) -> None:
    bodies = distinct_bodies(ROOT / "examples/requests/scenes.json", 8, seed=1, most_images=1)
    expected = asyncio.run(answers_alone(tiny.url, bodies))
    assert len(set(expected)) > 3
    outcome = asyncio.run(run_clients(tiny.url, bodies, expected, clients=8, requests=4, seed=2))
    assert outcome.wrong == []
    assert sum(outcome.counts.values()) == 32
    assert outcome.counts["malformed"] and outcome.counts["cancelled"]
    assert tiny.service.dispatcher.waiting == 0
