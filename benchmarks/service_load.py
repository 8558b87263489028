"""Load on a live service: no hang, no leak, no answer that differs from the one given alone.

    python -m edgevlm.benchmarks.service_load --engine engines/tiny-8 --output load.json

Clients put a mix of text and image requests, streamed and not, to ``edgevlm serve``; a tenth of
them leave in the middle, and one in twenty is wrong. Then the same clients load a service with all
slots and one with a single slot in turns, with that mix and with text alone and long answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from .service_clients import Outcome, answers_alone, run_clients
from .service_mix import distinct_bodies
from .service_process import MemoryLog, RunningService, running_service

QUESTIONS = 64
ROUNDS = 4
FLAT = 1.05
"""How much more memory the last quarter of the run may hold than the one before."""


def main() -> int:
    """Run; status 1 if anything was not as it had to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", type=Path, required=True, help="built with --max-batch SLOTS")
    parser.add_argument("--requests-file", type=Path, default=Path("examples/requests/scenes.json"))
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=500, help="of each client")
    parser.add_argument("--compare", type=int, default=10, help="of each client in each turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()

    mixed = distinct_bodies(options.requests_file, QUESTIONS, options.seed)
    texts = distinct_bodies(
        options.requests_file, QUESTIONS, options.seed, most_images=0, long_share=1.0
    )
    figures = {"load": soak(options, mixed)}
    for name, bodies in (("mixed", mixed), ("long_text", texts)):
        figures[f"slots_against_one_{name}"] = compare(options, bodies)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    problems = [problem for part in figures.values() for problem in part["problems"]]
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if problems else 0


def soak(options: argparse.Namespace, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """The long run: what was answered, how fast, and what the processes held."""
    with running_service(options.engine, options.slots) as service:
        memory = MemoryLog(service)

        async def load() -> Outcome:
            expected = await answers_alone(service.url, bodies)
            watch = asyncio.create_task(memory.watch())
            outcome = await _run(options, service, bodies, expected, options.requests, options.seed)
            watch.cancel()
            return outcome

        outcome = asyncio.run(load())
    problems = list(outcome.wrong)
    resident = {process: memory.quarters(process) for process in ("http", "engine")}
    for process, quarters in resident.items():
        if quarters[3] > FLAT * quarters[2]:
            problems.append(f"the {process} process grew: {quarters} MiB")
    latencies = sorted(outcome.latencies_s)
    return {
        "slots": options.slots,
        "clients": options.clients,
        "counts": dict(outcome.counts),
        "seconds": round(outcome.seconds, 1),
        "requests_per_s": round(options.clients * options.requests / outcome.seconds, 2),
        "tokens_per_s": round(outcome.tokens / outcome.seconds, 1),
        "latency_median_s": round(statistics.median(latencies), 3),
        "latency_p95_s": round(latencies[int(0.95 * (len(latencies) - 1))], 3),
        "resident_mib_median_by_quarter": resident,
        "problems": problems,
    }


def compare(options: argparse.Namespace, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """All slots against one, in turns, so that whatever else the machine does meets both."""
    problems: list[str] = []
    seconds = {options.slots: 0.0, 1: 0.0}
    tokens = {options.slots: 0, 1: 0}
    with (
        running_service(options.engine, options.slots) as many,
        running_service(options.engine, 1) as one,
    ):

        async def turns() -> None:
            expected = await answers_alone(many.url, bodies)
            for turn in range(ROUNDS):
                for slots, service in ((options.slots, many), (1, one)):
                    outcome = await _run(
                        options, service, bodies, expected, options.compare, turn * 100
                    )
                    seconds[slots] += outcome.seconds
                    tokens[slots] += outcome.tokens
                    problems.extend(outcome.wrong)

        asyncio.run(turns())
    requests = ROUNDS * options.clients * options.compare
    rates = {slots: requests / spent for slots, spent in seconds.items()}
    return {
        "requests_per_s": {str(slots): round(rate, 2) for slots, rate in rates.items()},
        "tokens_per_s": {str(n): round(tokens[n] / seconds[n], 1) for n in seconds},
        "ratio": round(rates[options.slots] / rates[1], 2),
        "problems": problems,
    }


async def _run(
    options: argparse.Namespace,
    service: RunningService,
    bodies: list[dict[str, Any]],
    expected: list[str],
    requests: int,
    seed: int,
) -> Outcome:
    return await run_clients(
        service.url, bodies, expected, clients=options.clients, requests=requests, seed=seed
    )


if __name__ == "__main__":
    sys.exit(main())
