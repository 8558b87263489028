"""``edgevlm calibrate sere``: how alike are the experts of each layer?"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from ..core.device import torch_device
from ..models import Checkpoint
from ..plugins.sere import METRICS, PROTECT_RULES, Calibration, calibrate, read_texts, token_block
from ..runtime import require_folder
from ..runtime.tokenizer import Tokenizer
from .calibrate_progress import calibration_display


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="a mixture of experts"
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="TEXTS",
        help="generic texts: .jsonl with a text on each line, or plain text, with documents"
        " between blank lines or on a line each",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="to write")
    parser.add_argument("--metric", choices=METRICS, default="frobenius")
    parser.add_argument(
        "--sequences", type=_count, default=400, metavar="N", help="texts (default: 400)"
    )
    parser.add_argument(
        "--max-len", type=_count, default=128, metavar="N", help="tokens of each (default: 128)"
    )
    parser.add_argument(
        "--pack", action="store_true", help="join texts that are shorter instead of leaving them"
    )
    parser.add_argument(
        "--protect-by",
        choices=PROTECT_RULES,
        default="least-replaceable",
        help="which experts a run protects unless it says otherwise (default: %(default)s)",
    )
    parser.add_argument(
        "--task-data",
        type=Path,
        metavar="TEXTS",
        help="texts of the tasks that routed mass is measured on (default: those of --data)",
    )
    parser.add_argument(
        "--device", help="cpu, cuda, cuda:1, ... (default: cuda where there is one)"
    )


def run(args: argparse.Namespace) -> int:
    """Calibrate and write the file; returns the exit status."""
    begin = time.monotonic()
    device = torch_device(args.device)
    require_folder(args.output, f"--output {args.output}")
    checkpoint = Checkpoint(args.checkpoint)
    tokenizer = Tokenizer.from_directory(args.checkpoint)
    separator = min(tokenizer.eos_ids) if args.pack else None

    def block(path: Path) -> torch.Tensor:
        texts = read_texts(path)
        length, encode = args.max_len, tokenizer.encode
        return token_block(texts, encode, args.sequences, length, separator=separator)

    calibration = Calibration(
        block(args.data),
        None if args.task_data is None else block(args.task_data),
        args.metric,
        args.protect_by,
    )
    with calibration_display() as show:
        calibrate(checkpoint, calibration, args.output, device, show)
    seconds = time.monotonic() - begin
    print(f"calibrated {args.checkpoint} into {args.output} in {seconds:.1f} s")
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text}")
    return value
