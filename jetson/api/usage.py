"""What an answer cost, and which visual tokens it saw."""

from __future__ import annotations

from typing import Any

from ..worker.messages import Done

_FINISH = {"end-of-sequence": "stop", "stop-words": "stop", "length": "length"}


def finish_reason(done: Done) -> str:
    """OpenAI's word for why the answer ended."""
    return _FINISH.get(done.finish_reason, "stop")


def usage(done: Done) -> dict[str, Any]:
    """OpenAI's ``usage`` with ours in addition.

    ``prompt_tokens`` counts what was prefilled, after pruning; ``visual_pruning`` has both counts
    and, in ``skipped``, why nothing was pruned.
    """
    counts: dict[str, Any] = {
        "prompt_tokens": done.prompt_tokens,
        "completion_tokens": done.completion_tokens,
        "total_tokens": done.prompt_tokens + done.completion_tokens,
    }
    if done.report is not None:
        report = {k: v for k, v in done.report.items() if k != "kept_positions"}
        counts["visual_pruning"] = report
    return counts


def visual_tokens(done: Done) -> list[dict[str, Any]]:
    """One entry per image or frame group: its grid, and which of its cells were kept.

    Cells are numbered row by row; the grid covers the whole image evenly.
    """
    kept = (done.report or {}).get("kept_positions", [])
    entries = []
    for place in done.placements:
        end = place.start + place.rows * place.columns
        cells = [position - place.start for position in kept if place.start <= position < end]
        entries.append(
            {
                "media": place.media,
                "rows": place.rows,
                "columns": place.columns,
                "seconds": place.seconds,
                "kept": cells,
            }
        )
    return entries


def extras(done: Done, show_tokens: bool) -> dict[str, Any]:
    """Our additions to a finished answer."""
    found: dict[str, Any] = {"timing": done.timing}
    if done.notes:
        found["notes"] = list(done.notes)
    if show_tokens:
        found["visual_tokens"] = visual_tokens(done)
    return found
