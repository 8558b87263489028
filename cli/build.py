"""``edgevlm build``: a checkpoint becomes an engine directory."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from ..builder import BuildConfig, build_engine, estimate, targets
from ..core.capabilities import parse_capabilities
from ..core.gpu import host_available_bytes
from ..core.manifest import ENGINE_DTYPES
from ..models.checkpoint import Checkpoint
from ..plugins.controls import CONTROLS
from .build_progress import build_display
from .limits import add_limits, read_limits
from .sizes import size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="Hugging Face checkpoint"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="engine directory to (re)place"
    )
    parser.add_argument(
        "--target", required=True, help=f"what runs it: {', '.join(targets.names())}"
    )
    parser.add_argument(
        "--dtype",
        choices=ENGINE_DTYPES,
        help="default: float32 for onnxruntime, the checkpoint's own for the others",
    )
    parser.add_argument(
        "--sm",
        type=parse_capabilities,
        default=(),
        metavar="LIST",
        help="tensorrt-rtx: GPU generations to build for, such as 89,120 (default: the one here)",
    )
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="keep an engine that fails its comparison with the reference",
    )
    add_limits(parser)
    parser.add_argument(
        "--importance-layer",
        type=_layer,
        default=-1,
        metavar="N",
        help="layer of the vision tower whose queries and keys it can deliver, for pruners that"
        " rank by attention; none leaves them out (default: -1, the last)",
    )
    parser.add_argument(
        "--routing",
        nargs="*",
        metavar="NAME",
        help="mixture of experts: control over its routing that the engine offers, of"
        f" {', '.join(CONTROLS.names())} (default: sere; nothing after the flag: none)",
    )


def _layer(text: str) -> int | None:
    try:
        return None if text == "none" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or none, got {text!r}") from None


def run(args: argparse.Namespace) -> int:
    """Build the engine the arguments describe; returns the exit status."""
    from ..runtime.parity_gate import ParityGate

    logging.basicConfig(format="%(message)s")  # what TensorRT warns about
    config = BuildConfig(
        args.checkpoint,
        args.output,
        args.target,
        args.dtype,
        read_limits(args),
        compute_capabilities=args.sm,
        importance_layer=args.importance_layer,
        routing=None if args.routing is None else tuple(args.routing),
    )
    start = time.monotonic()
    _warn_of_memory(config)
    gate = ParityGate(allow_unverified=args.allow_unverified, tell=_tell)
    with build_display() as display:
        build_engine(config, display.step, on_progress=display.within, verify=gate)
    print(f"built {args.output} for {args.target} in {time.monotonic() - start:.1f} s")
    return 0


def _warn_of_memory(config: BuildConfig) -> None:
    """Say so before the work begins if this machine may be too small for it."""
    target, checkpoint = targets.get(config.target), Checkpoint(config.checkpoint)
    dtype = config.dtype or target.default_dtype(checkpoint)
    counted = estimate(checkpoint, config.target, dtype, config.limits)
    needed, free = counted.build_peak - counted.build_mapped, host_available_bytes()
    if needed > free:
        _tell(
            f"warning: this build takes about {size(needed)} of memory and {size(free)} are"
            " available; it may be killed"
        )


def _tell(line: str) -> None:
    print(f"edgevlm build: {line}", file=sys.stderr, flush=True)
