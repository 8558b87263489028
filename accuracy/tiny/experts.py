"""Accuracy of the tiny mixture of experts under every way of routing, on held-out prompts.

    python -m edgevlm.accuracy.tiny.experts --engine engines/tiny-moe --sere sere.safetensors \
        --macs macs.safetensors --prompts 100 --output docs/results/experts-accuracy.md

Writes the tables, and beside them the same figures as JSON. Prompts of all tasks and sizes take
turns, so a batch mixes them. An answer counts when it is exactly right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import UsageError, exit_status
from ...plugins.macs.report import MacsReport
from ...runtime import (
    ChatRequest,
    ImagePart,
    Message,
    Response,
    Runtime,
    SamplingParams,
    TextPart,
    require_folder,
    write_atomically,
)
from ...runtime.prompt import PreparedPrompt
from ...runtime.request import Part
from ..evaluation import EngineDirs
from .buckets import BUCKETS
from .expert_cases import Case, cases
from .expert_tables import document
from .heldout import HeldOutSample, heldout, tasks_of
from .questions import TASKS

_GREEDY = SamplingParams(temperature=0.0, max_tokens=8, logprobs=0)
_SEED = 20
VISUAL_HEAVY = 0.85  # of a prompt's tokens


@dataclass
class Answered:
    """One answer, and minus the log probability of its tokens."""

    text: str = ""
    doubt: float = 0.0


@dataclass
class Tally:
    """What one case did: answers by task and by kind of prompt, and sums over layers."""

    right: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    doubt: list[float] = field(default_factory=list)
    active: tuple[float, float] | None = None
    load: float | None = None
    dropped: float | None = None
    rerouted: float | None = None
    changed: float | None = None
    rows: float | None = None

    def add(self, sample: HeldOutSample, answer: Answered, kind: str) -> None:
        """Score one answer."""
        for key in (sample.task, kind, "all"):
            self.right[key].append(int(answer.text == sample.answer))
        self.doubt.append(answer.doubt)

    def as_json(self) -> dict[str, Any]:
        """Scores in per cent and what control did."""
        scores = {key: 100 * sum(found) / len(found) for key, found in self.right.items()}
        lists = ("right", "doubt")
        rest = {n: v for n, v in vars(self).items() if n not in lists and v is not None}
        return {"scores": scores, "doubt": sum(self.doubt) / len(self.doubt), **rest}


def prompts(each: int) -> Iterator[HeldOutSample]:
    """``each`` prompts of every task, tasks in turn, and sizes within a task."""
    streams = []
    for task in TASKS:
        names = [name for name in BUCKETS if task in tasks_of(name)]
        share = -(-each // len(names))
        groups = [list(heldout(task, name, share, _SEED)) for name in names]
        streams.append([group[i] for i in range(share) for group in groups][:each])
    for turn in zip(*streams, strict=True):
        yield from turn


class Asker:
    """Asks the same prompts again and again, prepared once."""

    def __init__(self, runtime: Runtime, samples: Sequence[HeldOutSample]) -> None:
        self.runtime, self.samples = runtime, samples
        self._requests = [_request(sample) for sample in samples]
        self._prepared = [runtime.prepare(request) for request in self._requests]
        self.kinds = [_kind(prompt) for prompt in self._prepared]

    def answers(self, batch: int) -> list[Answered]:
        """All answers, ``batch`` requests decoded together."""
        done: list[Answered] = []
        for first in range(0, len(self.samples), batch):
            part = slice(first, first + batch)
            pairs = zip(self._requests[part], self._prepared[part], strict=True)
            wanted = [self.runtime.submit(*pair) for pair in pairs]
            found = {index: Answered() for index in wanted}
            admitted = 0
            while not self.runtime.idle:
                # All of them are prefilled before the first decodes, so the batch is a full one.
                admitted += 1
                for event in self.runtime.step(decode=admitted >= len(wanted)):
                    if isinstance(event, Response):
                        found[event.index].text = event.text
                    else:
                        found[event.index].doubt -= sum(t.logprob for t in event.logprobs)
            done += [found[index] for index in wanted]
        return done


def tally(asker: Asker, case: Case, batch: int) -> tuple[Tally, list[Answered]]:
    """Run one case."""
    runtime, found = asker.runtime, Tally()
    runtime.set_expert_routing(case.routing)
    before, decoded_before = runtime.routing_totals(), runtime.decode_totals
    answers = asker.answers(batch)
    after = runtime.routing_totals()
    assert before is not None and after is not None
    for sample, answer, kind in zip(asker.samples, answers, asker.kinds, strict=True):
        found.add(sample, answer, kind)
    totals = after - before
    if totals.steps:
        pair = (totals.active / totals.steps).mean(0).tolist()
        found.active = (pair[0], pair[1])
        decoded = runtime.decode_totals - decoded_before
        found.rows = decoded.tokens / decoded.steps
    if totals.prompts:
        moe = runtime.config.text.moe
        assert moe is not None
        layers = [
            MacsReport.read(row).summary(moe.top_k, moe.num_experts)
            for row in totals.macs / totals.prompts
        ]
        slots = sum(layer["rows"] for layer in layers) * moe.top_k
        found.load = sum(layer["raw_imbalance_after"] for layer in layers) / len(layers)
        lost = sum(layer["dropped_visual"] + layer["dropped_text"] for layer in layers)
        found.dropped = 100 * lost / slots
        found.rerouted = 100 * sum(layer["rerouted"] for layer in layers) / slots
    return found, answers


def measure(asker: Asker, todo: Sequence[Case], batch: int) -> list[dict[str, Any]]:
    """One entry per case; SERE's say how many answers differ from the request's own alone."""
    rows = []
    for case in todo:
        found, answers = tally(asker, case, batch)
        if case.routing.sere is not None:
            alone = asker.answers(1)
            pairs = zip(answers, alone, strict=True)
            found.changed = 100 * sum(a.text != b.text for a, b in pairs) / len(answers)
        row = {"group": case.group, "name": case.name, "factor": case.factor, **found.as_json()}
        print(f"{case.name} {case.factor or ''}: {row['scores']['all']:.1f}", file=sys.stderr)
        rows.append(row)
    return rows


def _request(sample: HeldOutSample) -> ChatRequest:
    images: list[Part] = [ImagePart(image) for image in sample.images]
    parts = (*images, TextPart(sample.question))
    return ChatRequest((Message("user", parts),), _GREEDY, visual_pruning={"enabled": False})


def _kind(prompt: PreparedPrompt) -> str:
    visual = sum(item.grid[0] * item.grid[1] // 4 for item in prompt.media)
    heavy = visual >= VISUAL_HEAVY * len(prompt.token_ids)
    return "visual-heavy" if heavy else "text-heavier"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; 0, or a status with one line on what is wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    return exit_status(lambda: _run(_parse(words), words))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Accuracy under expert routing.")
    parser.add_argument("--engine", required=True, help="of the target torch")
    parser.add_argument("--sere", type=Path, required=True, help="calibration file")
    parser.add_argument("--macs", type=Path, required=True, help="calibration file")
    parser.add_argument("--prompts", type=int, default=100, help="of every task")
    parser.add_argument("--batch", type=int, default=16, help="requests decoded together")
    parser.add_argument("--output", type=Path, required=True, help="Markdown; JSON goes beside it")
    return parser.parse_args(words)


def _run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    require_folder(arguments.output)
    runtime = EngineDirs.parse(arguments.engine).open(None, None)
    if arguments.batch > runtime.max_batch:
        raise UsageError(f"--batch: the engine was built for {runtime.max_batch}")
    asker = Asker(runtime, list(prompts(arguments.prompts)))
    rows = measure(asker, list(cases(arguments.sere, arguments.macs)), arguments.batch)
    write_atomically(arguments.output, document(rows, words, arguments.batch, len(asker.samples)))
    text = json.dumps({"batch": arguments.batch, "rows": rows}, indent=1) + "\n"
    write_atomically(arguments.output.with_suffix(".json"), text)


if __name__ == "__main__":
    sys.exit(main())
