"""``edgevlm calibrate macs``: count which experts visual and text tokens choose."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from ..core import EngineLimits, PipelineIO, RequestError, UsageError
from ..core.manifest import edgevlm_version
from ..models import Checkpoint
from ..models.moe import MoeBlock
from ..models.routing import top_experts
from ..plugins.macs import ModalityCounter, ModalityCounts, Provenance, write_counts
from ..runtime import read_request_file, require_folder
from ..runtime.embeddings import assemble
from ..runtime.engines.routing import visual_rows
from ..runtime.processor import Processor
from ..runtime.reference import open_reference
from ..runtime.request import ChatRequest
from ..runtime.vision import VisionRunner
from ..runtime.visual_items import VisualLimits

_IMAGE_TOKENS = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="Hugging Face checkpoint"
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="REQUESTS",
        help="request file (JSON) as llm_inference takes it, like the prompts to come",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="counts file")
    parser.add_argument(
        "--max-input-len",
        type=int,
        default=4096,
        metavar="N",
        help="tokens of a prompt; longer ones are an error (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Count and write; returns the exit status."""
    checkpoint = Checkpoint(args.checkpoint)
    text = checkpoint.config.text
    if text.moe is None:
        raise UsageError(f"{args.checkpoint}: not a mixture of experts; nothing to calibrate")
    require_folder(args.output, f"--output {args.output}")
    limits = EngineLimits(
        max_input_len=args.max_input_len,
        max_kv_len=args.max_input_len,
        max_batch=1,
        max_image_tokens=_IMAGE_TOKENS,
    )
    counter = ModalityCounter(text.moe_layers, text.moe.num_experts)
    digest, tokens, prompts = hashlib.sha256(), [0, 0], 0
    dtype = ""
    for io in _prompts(checkpoint, args.data, limits, counter):
        dtype = str(io.embeds.dtype).removeprefix("torch.")
        ids = io.token_ids.to(torch.int64).cpu()
        spans = [(span.start, span.end) for span in io.spans]
        digest.update(ids.numpy().tobytes() + repr(spans).encode())
        tokens[0] += io.visual_tokens
        tokens[1] += len(io) - io.visual_tokens
        prompts += 1
        print(f"\rprompt {prompts}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    provenance = Provenance(
        checkpoint=checkpoint.directory.absolute().name,
        fingerprint=checkpoint.fingerprint,
        prompts=str(prompts),
        visual_tokens=str(tokens[0]),
        text_tokens=str(tokens[1]),
        data=digest.hexdigest(),
        dtype=dtype,
        edgevlm=edgevlm_version(),
    )
    found = ModalityCounts(counter.counts, provenance)
    write_counts(args.output, found)
    print("\n".join(_lines(found, text.moe_layers)))
    return 0


def _prompts(
    checkpoint: Checkpoint, data: Path, limits: EngineLimits, counter: ModalityCounter
) -> Iterator[PipelineIO]:
    """Run each request's prompt through the reference."""
    config = checkpoint.config
    processor = Processor.from_directory(
        checkpoint.directory, VisualLimits(max_tokens=limits.max_image_tokens)
    )
    reference = open_reference(checkpoint, limits, slots=1)
    patches = limits.max_image_tokens * config.vision.merge_unit
    vision = VisionRunner(reference.vision, config.vision, patches)
    for place, request in enumerate(read_request_file(data).requests):
        if not isinstance(request, ChatRequest):
            raise UsageError(f"{data}: request {place}: {request}")
        try:
            prompt = processor.prepare(request)
            features = vision.encode(prompt.media) if prompt.media else []
            io = assemble(reference.llm, prompt, features, config.num_deepstack)
        except RequestError as error:
            raise UsageError(f"{data}: request {place}: {error}") from None
        if len(io) > limits.max_input_len:
            raise UsageError(
                f"{data}: request {place} has {len(io)} tokens; raise --max-input-len"
                f" ({limits.max_input_len})"
            )
        with _counted(counter, visual_rows(io)):
            reference.llm.prefill(0, io)
        yield io


@contextmanager
def _counted(counter: ModalityCounter, visual: Tensor) -> Iterator[None]:
    """Count what the router of every layer chooses meanwhile."""

    def watch(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(module, MoeBlock):
            routing = top_experts(module.gate(inputs[0].flatten(0, 1)), module.top_k)
            counter.add(module.layer, routing, visual)

    handle = register_module_forward_hook(watch)
    try:
        yield
    finally:
        handle.remove()


def _lines(found: ModalityCounts, layers: tuple[int, ...]) -> Iterator[str]:
    origin = found.provenance
    yield (
        f"{origin.prompts} prompts, {origin.visual_tokens} visual and {origin.text_tokens} text"
        " tokens; experts at the default threshold:"
    )
    for layer, groups in zip(layers, found.groups(0.15), strict=True):
        visual, text = int((groups > 0).sum()), int((groups < 0).sum())
        yield f"layer {layer}: {visual} visual, {text} text, {len(groups) - visual - text} shared"
