"""Visual-token pruning on a GPU: is it right, and how long does it take.

Run ``python -m edgevlm.benchmarks.pruners --output pruners.json``. Kernels are compared with
higher precision on fresh inputs first; a wrong one ends the run. ``eager_ms`` is from an idle
device to the end of one call, ``host_ms`` what the call keeps the host busy for, ``graph_ms`` one
replay of a CUDA graph. All are medians. Inputs alternate, so none of them is in the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..core import UsageError
from . import adaptive, dart, importance
from .command import command
from .importance import AttentionShape
from .prompts import PromptShape
from .report import Row, environment, table, write_json
from .timing import Timer

_MODULE = "edgevlm.benchmarks.pruners"


@dataclass(frozen=True)
class Plan:
    """What is checked and measured."""

    prompts: tuple[PromptShape, ...]
    ratios: tuple[float, ...]
    attentions: tuple[AttentionShape, ...]
    checked_prompts: tuple[tuple[PromptShape, tuple[int, int]], ...]  # with pivots: image, text
    checked_attentions: tuple[AttentionShape, ...]
    dtypes: tuple[torch.dtype, ...]


FULL = Plan(
    prompts=(
        PromptShape(1, 1995, 2560),
        PromptShape(30, 1000, 2560),
        PromptShape(1, 16384, 2560),
    ),
    ratios=(0.25, 0.5),
    attentions=(AttentionShape(1, 4096, 16, 72), AttentionShape(30, 1024, 16, 72)),
    checked_prompts=(
        (PromptShape(1, 1995, 2560), (4, 4)),
        (PromptShape(30, 1000, 2560), (4, 4)),
        (PromptShape(3, 257, 1000), (60, 4)),
        (PromptShape(1, 16384, 1000), (0, 8)),
    ),
    checked_attentions=tuple(AttentionShape(3, 700, 2, width) for width in (16, 72, 128)),
    dtypes=(torch.bfloat16, torch.float16, torch.float32),
)
# Small enough for Triton's interpreter, which knows no bf16 matrix product.
TOY = Plan(
    prompts=(PromptShape(1, 16, 16, 1),),
    ratios=(0.5,),
    attentions=(AttentionShape(1, 40, 1, 16),),
    checked_prompts=((PromptShape(2, 16, 16, 1), (2, 2)),),
    checked_attentions=(AttentionShape(2, 20, 1, 16),),
    dtypes=(torch.float16,),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    return command(_MODULE, (FULL, TOY), run, argv, repeats=50, check_device=_check_device)


def run(plan: Plan, timer: Timer, output: Path | None) -> None:
    """Check, measure, write and print."""
    found = environment(_MODULE, timer.device)
    if output is not None:
        write_json(output, {"environment": found})  # or fail now rather than at the end
    checks = [*_check(plan, timer.device)]
    pruning: list[Row] = []
    automatic: list[Row] = []
    for shape in plan.prompts:
        # Several prompts pass through the caches, unless one alone is larger than they are.
        sets = 4 if shape.images * shape.tokens < 8192 else 2
        for ratio in plan.ratios:
            pruning += dart.measure(shape, ratio, timer, sets)
        automatic += adaptive.measure(shape, timer, sets)
    attention: list[Row] = []
    for attended in plan.attentions:
        attention += importance.measure(attended, timer, 4)
    found["copy_gb_s"] = timer.copy_bandwidth()
    if output is not None:
        results = {"checks": checks, "pruning": pruning, "importance": attention}
        write_json(output, {"environment": found, **results, "adaptive": automatic})
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    for rows in (checks, pruning, attention, automatic):
        print(f"\n{table(rows)}")


def _check(plan: Plan, device: torch.device) -> Iterator[Row]:
    for dtype in plan.dtypes:
        for shape, pivots in plan.checked_prompts:
            for ratio in plan.ratios:
                found = dart.check(shape, ratio, pivots, dtype, device)
                yield _checked(f"DART, r={ratio}, pivots {pivots}", shape, dtype, found)
            error = adaptive.check(shape, dtype, device)
            yield _checked(
                "automatic ratio", shape, dtype, {"kept_otherwise": None, "error": error}
            )
        for attended in plan.checked_attentions:
            error = importance.check(attended, dtype, device)
            yield _checked("importance", attended, dtype, {"kept_otherwise": None, "error": error})


def _checked(check: str, shape: object, dtype: torch.dtype, found: Row) -> Row:
    return {"check": check, "shape": str(shape), "dtype": str(dtype), **found}


def _check_device(device: torch.device) -> None:
    if device.type == "cpu":
        import triton

        if not triton.knobs.runtime.interpret:
            raise UsageError(
                "on a CPU the kernels run under Triton's interpreter only: use --device cuda, or "
                "set TRITON_INTERPRET=1 and pass --toy"
            )


if __name__ == "__main__":
    sys.exit(main())
