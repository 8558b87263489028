"""Build engines with TensorRT for RTX, without a GPU: time, memory, sizes, layers.

    python -m edgevlm.benchmarks.tensorrt_build --output docs/results/tensorrt-rtx-build
    python -m edgevlm.benchmarks.tensorrt_build --cases 2b --output ...   # one case, added to it

Writes the figures as ``.json`` and a page about them as ``.md``. Each case runs in a process of its
own, so that the peak of its resident memory is its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..builder import Network, estimate
from ..builder.targets import WriteOptions
from ..builder.tensorrt_plan import build_plan
from ..core.capabilities import TENSORRT_RTX, parse_capabilities
from ..core.gpu import host_total_bytes
from ..core.limits import EngineLimits
from ..core.tensorrt_library import load_tensorrt
from ..models.checkpoint import Checkpoint
from .qwen3_vl_shapes import write_checkpoint
from .report import table, write_json

_TINY = Path(__file__).resolve().parent.parent / "examples/checkpoints/tiny-dense"
_SHOWN = ("ATTENTION_INPUT", "KV_CACHE_UPDATE", "ROTARY_EMBEDDING")


@dataclass(frozen=True)
class Case:
    """``size`` is that of the shape; the bundled checkpoint where it is empty."""

    dtype: str
    size: str = ""
    layers: int = 0
    depth: int = 0

    def checkpoint(self, folder: Path) -> Path:
        if not self.size:
            return _TINY
        write_checkpoint(folder / "checkpoint", self.size, self.layers, self.depth)
        return folder / "checkpoint"


CASES = {
    "tiny-dense": (Case("float16"), Case("bfloat16")),
    "4b-slice": (Case("bfloat16", "4b", 2, 4), Case("float16", "4b", 2, 4)),
    "2b": (Case("bfloat16", "2b"),),
}


def measure(
    name: str, case: Case, source: Path, capabilities: tuple[str, ...], folder: Path
) -> dict[str, Any]:
    """Build both networks of one case; call it in a process of its own."""
    checkpoint = Checkpoint(source)
    library, limits = load_tensorrt(TENSORRT_RTX), EngineLimits()
    warnings = _Collected()
    logging.getLogger("edgevlm.tensorrt").addHandler(warnings)
    options = WriteOptions(folder, capabilities)
    parts = {}
    for kind in ("visual", "llm"):
        importance = checkpoint.config.vision.depth - 1
        network = Network(kind, checkpoint, limits, case.dtype, importance_layer=importance)
        begin = time.monotonic()
        summary = build_plan(library, network, options, folder / "model.plan")
        parts[kind] = {
            "seconds": round(time.monotonic() - begin, 1),
            "plan_bytes": (folder / "model.plan").stat().st_size,
            "profiles": [profile.name for profile in network.contract.profiles],
            "layers": {layer: summary.layers.get(layer, 0) for layer in _SHOWN},
            "all_layers": sum(summary.layers.values()),
        }
    return {
        "checkpoint": name,
        "dtype": case.dtype,
        "weight_bytes": checkpoint.nbytes,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "estimated_peak_bytes": estimate(checkpoint, TENSORRT_RTX, case.dtype, limits).build_peak,
        "warnings": warnings.lines,
        "parts": parts,
    }


class _Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sm", type=parse_capabilities, default=("8.9", "12.0"))
    parser.add_argument("--output", type=Path, help="file to write or to add to, less its suffix")
    arguments = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for name in arguments.cases:
        for case in CASES[name]:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                checkpoint = case.checkpoint(folder)
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                    job = process.submit(measure, name, case, checkpoint, arguments.sm, folder)
                    rows.append(job.result())
            print(table([_shown(row) for row in rows[-1:]]), flush=True)
    if arguments.output:
        _write(arguments.output, rows, arguments.sm)
    return 0


def _write(path: Path, rows: list[dict[str, Any]], capabilities: tuple[str, ...]) -> None:
    """Replace the cases that ran, keep the others."""
    page, path = path.with_suffix(".md"), path.with_suffix(".json")
    old = json.loads(path.read_text(encoding="utf-8"))["builds"] if path.exists() else []
    ran = {(row["checkpoint"], row["dtype"]) for row in rows}
    kept = [row for row in old if (row["checkpoint"], row["dtype"]) not in ran]
    report = {
        "command": "python -m edgevlm.benchmarks.tensorrt_build",
        "tensorrt_rtx": load_tensorrt(TENSORRT_RTX).version,
        "compute_capabilities": capabilities,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, no GPU, {host_total_bytes() / 1e9:.0f} GB",
        "builds": [*kept, *rows],
    }
    write_json(path, report)
    page.write_text(render(report), encoding="utf-8")


def render(report: dict[str, Any]) -> str:
    """The page about the figures."""
    builds: list[dict[str, Any]] = report["builds"]
    order = {name: place for place, name in enumerate(CASES)}
    builds = sorted(builds, key=lambda row: (order[row["checkpoint"]], row["dtype"] != "bfloat16"))
    layers = [
        {
            "checkpoint": row["checkpoint"],
            "dtype": row["dtype"],
            "network": kind,
            "profiles": " ".join(part["profiles"]),
            "attentions": part["layers"]["ATTENTION_INPUT"],
            "cache updates": part["layers"]["KV_CACHE_UPDATE"],
            "rotations": part["layers"]["ROTARY_EMBEDDING"],
            "layers": part["all_layers"],
        }
        for row in builds
        for kind, part in row["parts"].items()
    ]
    said = sorted({line for row in builds for line in row["warnings"]})
    return _PAGE.format(
        version=report["tensorrt_rtx"],
        capabilities=" and ".join(report["compute_capabilities"]),
        machine=report["machine"],
        figures=table([_shown(row) for row in builds]),
        layers=table(layers),
        log="\n".join(said) or "(nothing at warning level or above)",
    )


_PAGE = """\
# Engines built with TensorRT for RTX, without a GPU

TensorRT for RTX {version}, for compute capabilities {capabilities}, on {machine}. Default limits.
*Built*, not run: no machine of ours has a GPU this library accepts. `4b-slice` is two decoder
layers and four vision blocks in every other shape of Qwen3-VL-4B, `2b` all of Qwen3-VL-2B, both
with random bfloat16 weights. Make the tables again (the machine was shared; times vary):

    python -m edgevlm.benchmarks.tensorrt_build --output docs/results/tensorrt-rtx-build

```
{figures}
```

*peak* is the largest resident memory of the process that built both networks one after the other,
*estimate* what `edgevlm estimate` says it will be. The mapped checkpoint is part of both; the
kernel can take those pages back.

```
{layers}
```

Attentions are the fused layer, with key lengths, the language model's aligned bottom-right, and
with decomposition forbidden: where there is no fused kernel, the build fails (float32 does). Every
network input is used. Head dimension 32, the bundled checkpoint's, has a fused kernel too.

Builder log:

```
{log}
```
"""


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    parts = row["parts"]
    return {
        "checkpoint": row["checkpoint"],
        "dtype": row["dtype"],
        "visual s": parts["visual"]["seconds"],
        "llm s": parts["llm"]["seconds"],
        "visual MB": round(parts["visual"]["plan_bytes"] / 1e6),
        "llm MB": round(parts["llm"]["plan_bytes"] / 1e6),
        "peak GB": round(row["peak_bytes"] / 1e9, 2),
        "estimate GB": round(row["estimated_peak_bytes"] / 1e9, 2),
        "attentions": sum(p["layers"]["ATTENTION_INPUT"] for p in parts.values()),
        "warnings": len(row["warnings"]),
    }


if __name__ == "__main__":
    raise SystemExit(main())
