"""Load on a live service: no hang, no leak, no answer that differs from the one given alone.

    python -m edgevlm.benchmarks.service_load --engine engines/tiny-dense --output load.json

Clients put a mix of text and image requests, streamed and not, to ``edgevlm serve``; a tenth of
them leave in the middle, and one in twenty is wrong. Then the same mix at one slot, for comparison.
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
from .service_process import MemoryLog, running_service

QUESTIONS = 64
FLAT = 1.05


def main() -> int:
    """Run; status 1 if anything was not as it had to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", type=Path, required=True, help="built with --max-batch SLOTS")
    parser.add_argument("--requests-file", type=Path, default=Path("examples/requests/scenes.json"))
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=500, help="of each client")
    parser.add_argument("--compare", type=int, default=50, help="requests of each client at 1 slot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()

    bodies = distinct_bodies(options.requests_file, QUESTIONS, options.seed)
    full = measure(options, bodies, options.slots, options.requests)
    one = measure(options, bodies, 1, options.compare)
    figures = {"slots": full, "one_slot": one}
    figures["throughput_ratio"] = full["requests_per_s"] / one["requests_per_s"]
    text = json.dumps(figures, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    problems = [*full["problems"], *one["problems"]]
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if problems else 0


def measure(
    options: argparse.Namespace, bodies: list[dict[str, Any]], slots: int, requests: int
) -> dict[str, Any]:
    """One service, one load: its figures and what was wrong."""
    with running_service(options.engine, slots) as service:
        memory = MemoryLog(service)

        async def load() -> tuple[Outcome, dict[str, float]]:
            expected = await answers_alone(service.url, bodies)
            watch = asyncio.create_task(memory.watch())
            outcome = await run_clients(
                service.url,
                bodies,
                expected,
                clients=options.clients,
                requests=requests,
                seed=options.seed,
            )
            watch.cancel()
            await asyncio.sleep(1)
            return outcome, service.resident_mib()

        outcome, _ = asyncio.run(load())
    return _figures(outcome, memory, slots, options.clients, requests)


def _figures(
    outcome: Outcome, memory: MemoryLog, slots: int, clients: int, requests: int
) -> dict[str, Any]:
    problems = list(outcome.wrong)
    resident = {}
    for process in ("http", "engine"):
        half, most = memory.second_half(process)
        resident[process] = {"half_way_mib": round(half, 1), "most_after_mib": round(most, 1)}
        if most > FLAT * half:
            problems.append(f"the {process} process grew from {half:.0f} to {most:.0f} MiB")
    latencies = sorted(outcome.latencies_s)
    return {
        "slots": slots,
        "clients": clients,
        "requests": clients * requests,
        "counts": dict(outcome.counts),
        "seconds": round(outcome.seconds, 1),
        "requests_per_s": round(clients * requests / outcome.seconds, 2),
        "tokens_per_s": round(outcome.tokens / outcome.seconds, 1),
        "latency_median_s": round(statistics.median(latencies), 3),
        "latency_p95_s": round(latencies[int(0.95 * (len(latencies) - 1))], 3),
        "resident": resident,
        "problems": problems,
    }


if __name__ == "__main__":
    sys.exit(main())
