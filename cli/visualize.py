"""``edgevlm visualize``: which parts of an image each pruner keeps, as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from ..core import RequestError, UsageError
from ..pruners import VisualPrunerConfig, create_visual_pruner
from ..runtime import (
    ChatRequest,
    ImagePart,
    Message,
    Runtime,
    SamplingParams,
    TextPart,
    require_folder,
)
from ..runtime.media import decode_image
from ..runtime.patches import resize
from .option_flags import parse_ratio
from .token_map import Panel, draw_panels

_ANSWER_TOKENS = 48
_SOME_QUESTION = "Describe the image."  # a prompt needs one, and some pruners look at it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "--engine", type=Path, required=True, metavar="DIR", help="holds llm/ and visual/"
    )
    parser.add_argument("--image", type=Path, required=True, metavar="FILE")
    parser.add_argument("--question", metavar="TEXT", help="ask it, and show each answer")
    parser.add_argument("--algorithm", nargs="+", default=["dart"], metavar="NAME")
    parser.add_argument(
        "--ratio",
        type=parse_ratio,
        default=0.5,
        metavar="R",
        help="part to remove, or auto: by what the image contains (default 0.5)",
    )
    parser.add_argument("--device", help="torch backend: cpu, cuda, cuda:1, ...")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="PNG file to write"
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw the unpruned image and one panel per algorithm; returns the exit status."""
    configs = [VisualPrunerConfig()]
    for name in arguments.algorithm:
        configs.append(VisualPrunerConfig(True, name, arguments.ratio))
        create_visual_pruner(configs[-1])  # fails before an engine is opened
    require_folder(arguments.output, f"--output {arguments.output}")
    runtime = Runtime.open(
        arguments.engine / "llm", arguments.engine / "visual", device=arguments.device
    )
    image = decode_image(arguments.image)
    panels = [_panel(runtime, image, arguments.question, config) for config in configs]
    try:
        draw_panels(panels).save(arguments.output, "PNG")
    except OSError as error:
        raise UsageError(f"cannot write {arguments.output}: {error.strerror or error}") from None
    return 0


def _panel(
    runtime: Runtime, image: Image.Image, question: str | None, config: VisualPrunerConfig
) -> Panel:
    pruning = {
        "enabled": config.enabled,
        "algorithm": config.algorithm,
        "reduction_ratio": config.reduction_ratio,
    }
    request = ChatRequest(
        (Message("user", (ImagePart(image), TextPart(question or _SOME_QUESTION))),),
        SamplingParams(temperature=0.0, max_tokens=_ANSWER_TOKENS if question else 1),
        visual_pruning=pruning,
    )
    name = config.algorithm if config.enabled else "not pruned"
    prompt = runtime.prepare(request)
    response = runtime.generate([request])[0]
    report = response.report
    if response.error is not None or report is None:
        raise RequestError(f"{name}: {response.error}")
    (item,), (span,) = prompt.media, prompt.spans
    vision = runtime.processor.config.vision
    rows, columns = (side // vision.merge_size for side in item.grid)
    height, width = (side * vision.patch_size for side in item.grid)
    caption = f"{name}: {report.visual_tokens_after} of {report.visual_tokens_before} tokens"
    if config.enabled and report.skipped is not None:
        caption += f" ({report.skipped})"
    if question:
        caption += f"\n{response.text}"
    return Panel(
        image=resize(image, height, width),  # as the vision tower saw it
        grid=(rows, columns),
        kept=frozenset(row - span.start for row in report.kept_positions),
        caption=caption,
    )
