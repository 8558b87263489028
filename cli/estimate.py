"""``edgevlm estimate``: the memory an engine will need, counted before anything is built."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from ..builder import Estimate, estimate, targets
from ..core import UsageError
from ..core.capabilities import (
    DEVICES,
    TENSORRT,
    TENSORRT_RTX,
    TITLES,
    BoardMemory,
    supported_capabilities,
)
from ..core.gpu import host_available_bytes, host_total_bytes, present_gpu
from ..core.manifest import ENGINE_DTYPES
from ..models.checkpoint import Checkpoint
from .limits import add_limits, read_limits
from .sizes import size

_UNIFIED_RESERVE = 2 * 2**30  # the system, its desktop and whatever else runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="Hugging Face checkpoint"
    )
    parser.add_argument(
        "--target", required=True, help=f"what will run it: {', '.join(targets.names())}"
    )
    parser.add_argument("--device", help=f"{', '.join(DEVICES)} (default: this machine)")
    parser.add_argument("--dtype", choices=ENGINE_DTYPES, help="as for build")
    add_limits(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the count; returns 1 where it does not fit, else 0."""
    target = targets.get(args.target)
    board = _board(args.device, args.target)
    checkpoint = Checkpoint(args.checkpoint)
    dtype = args.dtype or target.default_dtype(checkpoint)
    if dtype not in target.dtypes:
        raise UsageError(
            f"--dtype {dtype} does not run on target {args.target};"
            f" legal values: {', '.join(target.dtypes)}"
        )
    counted = estimate(checkpoint, args.target, dtype, read_limits(args))
    on_device = args.target == TENSORRT or args.device is None
    problems = list(_problems(counted, board, builds_here=on_device))
    if args.json:
        print(json.dumps({**asdict(counted), "running": counted.running, "fits": not problems}))
    else:
        print("\n".join(_lines(counted, board, args.target, dtype)))
        print("\n".join(problems) if problems else f"fits {board.title}")
    return 1 if problems else 0


def _board(name: str | None, target: str) -> BoardMemory:
    if name is None:
        gpu = present_gpu() if target != "onnxruntime" else None
        if gpu is None:
            return BoardMemory("this machine", "", host_total_bytes(), True)
        return BoardMemory(gpu.name, gpu.compute_capability, gpu.total_bytes, gpu.unified)
    if name not in DEVICES:
        raise UsageError(f"--device {name!r} is not known; known: {', '.join(DEVICES)}")
    board = DEVICES[name]
    if target in TITLES and board.capability not in supported_capabilities(target):
        other = TENSORRT if target == TENSORRT_RTX else "torch"
        raise UsageError(
            f"{TITLES[target]} does not run on {board.title} (compute capability"
            f" {board.capability}); use --target {other}"
        )
    return board


def _problems(counted: Estimate, board: BoardMemory, *, builds_here: bool) -> list[str]:
    found = []
    reserve = _UNIFIED_RESERVE if board.unified else 0
    if counted.running + reserve > board.memory:
        found.append(
            f"does not fit: running takes {size(counted.running)}, {board.title} has"
            f" {size(board.memory - reserve)} for it; lower --max-kv-len, --max-batch or"
            " --max-image-tokens, or use a smaller model"
        )
    needed = counted.build_peak - counted.build_mapped
    host = board.memory - reserve if board.unified else host_available_bytes()
    if builds_here and needed > host:
        found.append(
            f"does not build: that takes {size(needed)} of memory besides the mapped checkpoint,"
            f" there are {size(host)}; add swap or build on a larger machine of the same kind"
        )
    return found


def _lines(counted: Estimate, board: BoardMemory, target: str, dtype: str) -> list[str]:
    rows = [
        ("weights", counted.weights),
        ("token embeddings", counted.embeddings),
        ("KV caches", counted.kv_cache),
        ("activations", counted.activations),
        ("inputs and outputs", counted.buffers),
        ("CUDA and libraries", counted.device_base),
        ("running, in all", counted.running),
        (f"memory of {board.title}", board.memory),
        ("build, peak host memory", counted.build_peak),
        ("  of it mapped checkpoint", counted.build_mapped),
        ("engine on disk", counted.disk),
    ]
    lines = [f"{label:34} {size(count):>10}" for label, count in rows if count]
    return [f"target {target}, {dtype}", *lines]
