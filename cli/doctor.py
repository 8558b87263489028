"""``edgevlm doctor``: what works on this machine, and how to get what does not."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from ..core import UsageError
from ..core.capabilities import (
    TENSORRT_RTX,
    TITLES,
    available_features,
    platform_of,
    supported_capabilities,
)
from ..core.gpu import Gpu, free_gpu_bytes, host_available_bytes, host_total_bytes, present_gpu
from ..core.manifest import edgevlm_version, platform_name
from ..core.tensorrt_library import TensorRTLibrary, load_tensorrt
from .sizes import size

_JETSON_RELEASE = Path("/etc/nv_tegra_release")


@dataclass(frozen=True)
class Finding:
    """One line. ``state`` is ``"ok"``, ``"missing"`` or ``"info"``; missing ones have a remedy."""

    subject: str
    state: str
    text: str
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: argparse.Namespace) -> int:
    """Print the findings; returns 0: a machine without a GPU is not ill."""
    findings = list(examine())
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
        return 0
    for finding in findings:
        remedy = f" -> {finding.remedy}" if finding.remedy else ""
        print(f"{finding.state:8} {finding.subject:18} {finding.text}{remedy}")
    return 0


def examine() -> Iterator[Finding]:
    """Look at everything, from the system up to the targets."""
    gpu = present_gpu()
    libraries = {name: _library(name) for name in TITLES}
    yield Finding("edgevlm", "info", f"{edgevlm_version()}, Python {sys.version.split()[0]}")
    yield Finding("system", "info", f"{platform_name()}, {platform.release()}{_jetson()}")
    yield from _packages()
    yield _gpu_finding(gpu)
    yield from _memory(gpu)
    for library in libraries.values():
        yield library if isinstance(library, Finding) else _works(library, gpu)
    yield Finding("target onnxruntime", "ok", "any CPU")
    yield Finding("target torch", "ok", f"CPU{' and ' + gpu.name if gpu else ''}")
    for name, library in libraries.items():
        yield _target(name, library, gpu)


def _packages() -> Iterator[Finding]:
    for name in ("torch", "onnxruntime", "onnx"):
        version = importlib.metadata.version(name)
        cuda = f", CUDA {torch.version.cuda}" if name == "torch" and torch.version.cuda else ""
        yield Finding(name, "ok", version + cuda)


def _gpu_finding(gpu: Gpu | None) -> Finding:
    if gpu is None:
        built = torch.version.cuda is not None
        return Finding(
            "GPU",
            "missing",
            "torch sees none",
            "install the NVIDIA driver (nvidia-smi must work)"
            if built
            else "this torch is built for the CPU; install one with CUDA to use a GPU",
        )
    row = platform_of(gpu.compute_capability)
    where = f"{row.name}; {row.notes}" if row else "not in the table of supported platforms"
    return Finding("GPU", "ok", f"{gpu.name}, compute capability {gpu.compute_capability}: {where}")


def _memory(gpu: Gpu | None) -> Iterator[Finding]:
    host = f"{size(host_available_bytes())} of {size(host_total_bytes())} available"
    if gpu is not None and gpu.unified:
        free = size(free_gpu_bytes(gpu))
        yield Finding("memory", "info", f"{host}, shared with the GPU, which can have {free}")
        return
    yield Finding("memory", "info", host)
    if gpu is not None:
        free, total = size(free_gpu_bytes(gpu)), size(gpu.total_bytes)
        yield Finding("GPU memory", "info", f"{free} of {total} free")


def _library(name: str) -> TensorRTLibrary | Finding:
    try:
        return load_tensorrt(name)
    except UsageError as error:
        text, _, remedy = str(error).partition("; ")
        return Finding(TITLES[name], "missing", text, remedy)


def _works(library: TensorRTLibrary, gpu: Gpu | None) -> Finding:
    if gpu is None:
        return Finding(TITLES[library.name], "ok", library.version)
    found = available_features(library.name, library.numbers, gpu.compute_capability)
    names = ", ".join(f"{feature.name} ({feature.kind})" for feature in found)
    return Finding(TITLES[library.name], "ok", f"{library.version}: {names}")


def _target(name: str, library: TensorRTLibrary | Finding, gpu: Gpu | None) -> Finding:
    subject = f"target {name}"
    if isinstance(library, Finding):
        return Finding(subject, "missing", f"needs {TITLES[name]}", "see above")
    runs = gpu is not None and gpu.compute_capability in supported_capabilities(name)
    if runs:
        return Finding(subject, "ok", "builds and runs here")
    if name == TENSORRT_RTX:
        why = "no GPU is here" if gpu is None else f"{gpu.name} is not among its GPUs"
        return Finding(subject, "ok", f"builds here with --sm, runs elsewhere: {why}")
    other = "target torch" if gpu is not None else "a machine with a supported GPU"
    return Finding(subject, "missing", "cannot build or run here", f"use {other}")


def _jetson() -> str:
    try:
        return f", L4T {_JETSON_RELEASE.read_text(encoding='utf-8').splitlines()[0]}"
    except (OSError, IndexError):
        return ""
