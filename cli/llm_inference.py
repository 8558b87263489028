"""``llm_inference``: answer a request file with an engine, optionally pruning visual tokens."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..core import RequestError, UsageError
from ..pruners import VisualPrunerConfig
from ..runtime import (
    FinishReason,
    Response,
    Runtime,
    build_profile,
    format_profile,
    read_request_file,
    require_folder,
    response_document,
    write_atomically,
)
from ..runtime.request import ChatRequest
from ..runtime.timing import now_ms
from .errors import run_reporting_errors
from .option_flags import parse_option, parse_ratio
from .routing_flags import add_routing_arguments, profile_since, read_routing


def make_parser() -> argparse.ArgumentParser:
    """The command's flags: the seed's names, then ours."""
    parser = argparse.ArgumentParser(
        prog="llm_inference", description="Answer a request file with an engine directory."
    )
    files = parser.add_argument_group("files")
    files.add_argument("--engineDir", type=Path, required=True, help="the llm/ engine directory")
    files.add_argument("--multimodalEngineDir", type=Path, help="the visual/ engine directory")
    files.add_argument("--inputFile", type=Path, required=True, help="request file (JSON)")
    files.add_argument("--outputFile", type=Path, required=True, help="response file (JSON)")
    files.add_argument("--checkpointDir", type=Path, help="the checkpoint, if it was moved")
    pruning = parser.add_argument_group("visual-token pruning")
    pruning.add_argument("--visualPrune", action="store_true", help="prune visual tokens")
    pruning.add_argument("--visualPruneAlgo", default="dart", metavar="NAME")
    pruning.add_argument(
        "--dartReductionRatio",
        type=parse_ratio,
        default=0.25,
        metavar="R",
        help="part to remove, or auto: by what each image contains (default 0.25)",
    )
    pruning.add_argument("--dartPivotImageTokens", type=int, metavar="N", help="default 4")
    pruning.add_argument("--dartPivotTextTokens", type=int, metavar="N", help="default 4")
    pruning.add_argument(
        "--visualPruneOption",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the chosen algorithm, see `edgevlm pruners`, or a setting of all:"
        " auto_min, auto_max, min_visual_tokens",
    )
    add_routing_arguments(parser)
    run = parser.add_argument_group("run")
    run.add_argument("--batchSize", type=int, metavar="N", help="slots to use at once")
    run.add_argument("--maxGenerateLength", type=int, metavar="N", help="override the file's")
    run.add_argument("--device", help="torch backend: cpu, cuda, cuda:1, ...")
    run.add_argument("--warmup", type=int, default=0, metavar="N", help="unmeasured runs first")
    run.add_argument("--dumpOutput", action="store_true", help="print the answers")
    run.add_argument("--dumpProfile", action="store_true", help="print the performance profile")
    run.add_argument("--profileOutputFile", type=Path, help="write the profile as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0: all answered, 1: a request failed, 2: wrong usage."""
    arguments = make_parser().parse_args(argv)
    return run_reporting_errors(lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    pruner, routing = _pruner_config(arguments), read_routing(arguments)
    _check(arguments)
    entries = read_request_file(arguments.inputFile)
    runtime = Runtime.open(
        arguments.engineDir,
        arguments.multimodalEngineDir,
        checkpoint_dir=arguments.checkpointDir,
        device=arguments.device,
        max_batch=arguments.batchSize or entries.batch_size,
    )
    if (arguments.batchSize or 1) > runtime.max_batch:
        raise UsageError(
            f"--batchSize {arguments.batchSize}: the engine was built for {runtime.max_batch};"
            " rebuild it with a larger --max-batch"
        )
    runtime.set_visual_pruner_config(pruner)
    runtime.set_expert_routing(routing)
    for warning in entries.warnings:
        print(f"warning: {arguments.inputFile}: {warning}", file=sys.stderr)
    requests = [_override(entry, arguments.maxGenerateLength) for entry in entries.requests]
    good = [request for request in requests if isinstance(request, ChatRequest)]
    for _ in range(arguments.warmup):
        runtime.generate(good[: runtime.max_batch])

    before, routed = runtime.decode_totals, runtime.routing_totals()
    begin = now_ms()
    answers = iter(runtime.generate(good))
    total_ms = now_ms() - begin
    responses = [
        next(answers) if isinstance(request, ChatRequest) else _refused(place, request)
        for place, request in enumerate(requests)
    ]
    controlled = profile_since(runtime, routed)
    profile = build_profile(responses, runtime.decode_totals - before, total_ms, controlled)
    document = response_document(str(arguments.inputFile), responses, runtime.max_batch)
    write_atomically(arguments.outputFile, json.dumps(document, indent=4, ensure_ascii=False))
    if arguments.profileOutputFile:
        write_atomically(arguments.profileOutputFile, json.dumps(profile, indent=2))
    if arguments.dumpOutput:
        _print_answers(responses)
    if arguments.dumpProfile:
        print(format_profile(profile))
    return _report_failures(responses)


def _pruner_config(arguments: argparse.Namespace) -> VisualPrunerConfig:
    options = dict(parse_option("visualPruneOption", text) for text in arguments.visualPruneOption)
    for flag, option in (
        ("dartPivotImageTokens", "pivot_image_tokens"),
        ("dartPivotTextTokens", "pivot_text_tokens"),
    ):
        value = getattr(arguments, flag)
        if value is not None:
            if arguments.visualPruneAlgo != "dart":
                raise UsageError(
                    f"--{flag} belongs to the algorithm dart, not to {arguments.visualPruneAlgo}"
                )
            options[option] = value
    flags = {
        "enabled": arguments.visualPrune,
        "algorithm": arguments.visualPruneAlgo,
        "reduction_ratio": arguments.dartReductionRatio,
    }
    for name in options:
        if name in flags:
            raise UsageError(f"--visualPruneOption {name}: has a flag of its own, use that")
    return VisualPrunerConfig.from_mapping({**options, **flags})


def _check(arguments: argparse.Namespace) -> None:
    for flag, least in (("batchSize", 1), ("maxGenerateLength", 1), ("warmup", 0)):
        value = getattr(arguments, flag)
        if value is not None and value < least:
            raise UsageError(f"--{flag} must be at least {least}, got {value}")
    # Fail before the work, not after it, when the answers could not be written.
    for flag in ("outputFile", "profileOutputFile"):
        path = getattr(arguments, flag)
        if path is None:
            continue
        require_folder(path, f"--{flag} {path}")
        if path.is_dir():
            raise UsageError(f"--{flag} {path}: is a folder; name a file")


def _override(
    entry: ChatRequest | RequestError, max_tokens: int | None
) -> ChatRequest | RequestError:
    if max_tokens is None or isinstance(entry, RequestError):
        return entry
    return replace(entry, sampling=replace(entry.sampling, max_tokens=max_tokens))


def _refused(place: int, error: RequestError) -> Response:
    return Response(place, None, "", (), FinishReason.ERROR, error=str(error))


def _print_answers(responses: list[Response]) -> None:
    for place, response in enumerate(responses):
        print(f"[{place}] {response.text}")


def _report_failures(responses: list[Response]) -> int:
    failed = 0
    for place, response in enumerate(responses):
        if response.error is not None:
            failed = 1
            print(f"error: request {place}: {response.error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
