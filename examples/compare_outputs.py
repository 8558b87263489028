"""Print two ``llm_inference`` output files side by side: answers, visual tokens kept, timings.

python examples/compare_outputs.py output/full.json output/pruned.json
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

_ROW = "{:>2}  {:<44} {:<10} {:<10} {:>11} {:>17}"


def main(paths: list[str]) -> int:
    """Print the table; returns the exit status."""
    if len(paths) != 2:
        print("usage: compare_outputs.py FULL.json PRUNED.json", file=sys.stderr)
        return 2
    full, pruned = (json.loads(Path(path).read_text(encoding="utf-8")) for path in paths)
    print(_ROW.format("#", "question", "full", "pruned", "tokens kept", "prefill ms"))
    for place, (a, b) in enumerate(zip(full["responses"], pruned["responses"], strict=True)):
        counts = (b["usage"] or {}).get("visual_pruning") or {}
        kept = f"{counts.get('visual_tokens_after', 0)}/{counts.get('visual_tokens_before', 0)}"
        times = " -> ".join(_time(entry, "prefill_ms") for entry in (a, b))
        print(_ROW.format(place, _question(a), _answer(a), _answer(b), kept, times))
    for name, key in (("prefill", "prefill_ms"), ("time to first token", "ttft_ms")):
        before, after = (_median(document, key) for document in (full, pruned))
        print(f"median {name}: {before:.1f} ms -> {after:.1f} ms ({before / after:.2f}x)")
    return 0


def _question(entry: dict[str, Any]) -> str:
    """The last text of the user, shortened."""
    texts = [
        part["text"] if isinstance(part, dict) else part
        for message in entry["messages"]
        for part in (
            [message["content"]] if isinstance(message["content"], str) else message["content"]
        )
        if isinstance(part, str) or part.get("type") == "text"
    ]
    text = texts[-1] if texts else ""
    return text if len(text) <= 44 else f"{text[:41]}..."


def _answer(entry: dict[str, Any]) -> str:
    return str(entry.get("error") or entry["output_text"])


def _time(entry: dict[str, Any], key: str) -> str:
    value = entry["timing"][key]
    return "-" if value is None else f"{value:.1f}"


def _median(document: dict[str, Any], key: str) -> float:
    times = [r["timing"][key] for r in document["responses"] if r["timing"][key] is not None]
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
