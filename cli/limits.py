"""The engine limits as flags, the same for every command that takes them."""

from __future__ import annotations

import argparse
from dataclasses import fields

from ..core.limits import EngineLimits

_HELP = {
    "max_input_len": "tokens of one prompt, after pruning",
    "max_kv_len": "KV-cache slots of one sequence: prompt and answer",
    "max_batch": "sequences decoded together",
    "max_image_tokens": "visual tokens of one image or frame pair (one per 32x32 pixels)",
    "max_images": "images or frame pairs of one vision call",
}


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare one flag per limit."""
    for field in fields(EngineLimits):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int,
            default=field.default,
            metavar="N",
            help=f"{_HELP[field.name]} (default: {field.default})",
        )


def read_limits(args: argparse.Namespace) -> EngineLimits:
    """The limits the flags describe."""
    return EngineLimits(**{f.name: getattr(args, f.name) for f in fields(EngineLimits)})
