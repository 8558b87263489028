"""Compile kernels ahead of time for GPUs that are not here; prints what came of it as JSON.

A process of its own, for Triton is either compiling or interpreting.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import asdict
from itertools import product
from pathlib import Path

import triton

from edgevlm.plugins.tensorrt.ahead_of_time import compile_kernel
from edgevlm.plugins.tensorrt.experts import MOE_EXPERTS
from edgevlm.plugins.tensorrt.macs import MACS_CAPACITY
from edgevlm.plugins.tensorrt.sere import SERE_ROUTING

SIZES = {"H": 2048, "I": 768, "N": 128, "k": 8}
CASES = (
    (SERE_ROUTING.chain()[0], "", 0, ("8.7", "11.0", "12.1")),
    (MOE_EXPERTS.chain()[0], "", 0, ("8.7",)),
    (MOE_EXPERTS.chain()[1], "bfloat16", 0, ("8.7", "11.0")),
    (MOE_EXPERTS.chain()[2], "float16", 3, ("8.9",)),
    (MOE_EXPERTS.chain()[3], "bfloat16", 0, ("11.0",)),
    (MACS_CAPACITY, "bfloat16", 0, ("8.7",)),
)


def assembled(ptx: str) -> str:
    """What Triton's own assembler says against it."""
    target = next(line.split()[1] for line in ptx.splitlines() if line.startswith(".target"))
    new = int(target.removeprefix("sm_").rstrip("a")) >= 100
    folder = Path(triton.__file__).parent / "backends/nvidia/bin"
    program = folder / ("ptxas-blackwell" if new else "ptxas")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [program, f"-arch={target}", file.name, "-o", "/dev/null"]
        return subprocess.run(command, capture_output=True, text=True).stderr


def main() -> None:
    found = []
    for stage, floating, place, capabilities in CASES:
        for launch, capability in product(stage.launches, capabilities):
            variant = launch.variants(SIZES, floating)[place]
            kernel = compile_kernel(stage, launch, variant, floating, capability)
            about = {"stage": stage.name, "arguments": len(launch.arguments)}
            errors = assembled(kernel.ptx)
            found.append({**about, "capability": capability, "errors": errors, **asdict(kernel)})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
