"""Tables of what each way of routing experts costs."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from ...core.manifest import edgevlm_version
from .questions import TASKS

Row = dict[str, Any]
_LOADS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_KINDS = ("visual-heavy", "text-heavier")


def document(rows: Sequence[Row], words: Sequence[str], batch: int, prompts: int) -> str:
    """The whole page."""
    return "\n".join(_lines(rows, words, batch, prompts)) + "\n"


def _lines(rows: Sequence[Row], words: Sequence[str], batch: int, prompts: int) -> Iterator[str]:
    shown = [Path(word).name if "/" in word else word for word in words]
    whole = rows[0]["scores"]
    yield "# Accuracy of tiny-moe under expert routing\n"
    yield (
        f"Exactly right answers in per cent, greedy decoding, {prompts} held-out prompts that are"
        f" the same for all rows. {batch} requests at a time, tasks and image sizes in turn, so a"
        " batch mixes them. 16 experts, 4 per token, 6 layers.\n"
    )
    yield "    " + shlex.join(("python", "-m", "edgevlm.accuracy.tiny.experts", *shown)) + "\n"
    yield (
        f"edgevlm {edgevlm_version()}, torch {torch.__version__}, {platform.machine()} CPU, Python"
        f" {platform.python_version()}. As routed: {whole['all']:.1f} in all.\n"
    )
    yield (
        "`doubt` is minus the log probability of the answer that was given, in nats, on average: it"
        " moves before answers do. `visual-heavy` prompts have at least 85 % visual tokens (one"
        " image of 512x512, or four), `text-heavier` ones fewer.\n"
    )
    yield "## Decode: fewer experts per step\n"
    yield (
        "All prompts of a batch are read before the first token is decoded; `rows` is how many rows"
        " a step had on average, as answers end one by one. `active` counts distinct experts per"
        " layer and decode step, before and after; `changed` is how many answers differ when the"
        " same request is decoded alone instead of with others (per cent). The first token of an"
        " answer comes from the prompt, which SERE leaves alone, so only answers of several tokens"
        " can change.\n"
    )
    yield from _table(
        ("routing", *TASKS, "all", "doubt", "rows", "active", "changed"),
        (
            (
                row["name"],
                *_scores(row),
                _doubt(row),
                _number(row.get("rows")),
                _active(row),
                _number(row.get("changed")),
            )
            for row in rows
            if row["group"] in ("whole", "decode")
        ),
    )
    limits = [row for row in rows if row["group"] == "prefill"]
    yield "\n## Prefill: bounded load, MACS (reconstruction) and its baselines\n"
    yield (
        "`load` is the measured load of the busiest expert after control, in tokens over the mean,"
        " averaged over layers and prompts; `dropped` and `re-routed` are per cent of all"
        " assignments. MACS counts a visual token by its weight, about one half, so at an equal"
        " factor it admits about twice as many: compare at equal load.\n"
    )
    yield from _table(
        ("method", "factor", *TASKS, "all", *_KINDS, "doubt", "load", "dropped", "re-routed"),
        (
            (
                row["name"],
                f"{row['factor']:g}",
                *_scores(row),
                *(_number(row["scores"].get(kind)) for kind in _KINDS),
                _doubt(row),
                f"{row['load']:.2f}",
                _number(row["dropped"]),
                _number(row["rerouted"]),
            )
            for row in limits
        ),
    )
    yield "\n### At equal measured load\n"
    yield "Interpolated between the two nearest factors; - where none of them reaches the load.\n"
    names = list(dict.fromkeys(row["name"] for row in limits))
    for key in ("all", *_KINDS):
        yield f"\nScore, {'all prompts' if key == 'all' else key + ' prompts'}:\n"
        yield from _table(
            ("method", *(f"load {load:g}" for load in _LOADS)),
            (
                (
                    name,
                    *(
                        _number(_at([r for r in limits if r["name"] == name], key, load))
                        for load in _LOADS
                    ),
                )
                for name in names
            ),
        )


def _at(rows: Sequence[Row], key: str, load: float) -> float | None:
    """The score at a load, linear between the rows on either side of it."""
    points = sorted((row["load"], row["scores"][key]) for row in rows if key in row["scores"])
    for (low, first), (high, second) in pairwise(points):
        if low <= load <= high:
            share = (load - low) / (high - low) if high > low else 0.0
            return float(first + share * (second - first))
    return None


def _scores(row: Row) -> list[str]:
    return [_number(row["scores"].get(key)) for key in (*TASKS, "all")]


def _doubt(row: Row) -> str:
    return f"{row['doubt']:.3f}"


def _active(row: Row) -> str:
    pair = row.get("active")
    return f"{pair[0]:.1f} to {pair[1]:.1f}" if pair else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
