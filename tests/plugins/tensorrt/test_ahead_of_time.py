"""Kernels compiled for Jetsons on a machine without a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgevlm.core import EngineError
from edgevlm.plugins.tensorrt.ahead_of_time import SHARED_BYTES, without_scratch
from edgevlm.plugins.tensorrt.macs import MACS_CAPACITY

ROOT = Path(__file__).parents[3]
PTX = """
.visible .entry twice(
	.param .u64 .ptr .global .align 1 twice_param_0,
	.param .u32 twice_param_1,
	.param .u64 .ptr .global .align 1 twice_param_2,
	.param .u64 .ptr .global .align 1 twice_param_3
)
.reqntid 128
{
	ld.param.b64 	%rd1, [twice_param_0];
	ld.param.b32 	%r1, [twice_param_1];
}
"""


def test_kernels_are_compiled_for_gpus_that_are_not_here() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.plugins.tensorrt.compile_here"]
    done = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, cwd=ROOT
    )
    kernels = json.loads(done.stdout)
    assert len(kernels) == 8 + len(MACS_CAPACITY.launches)
    for kernel in kernels:
        ptx = kernel["ptx"]
        (entry,) = re.findall(r"\.entry (\w+)", ptx)
        assert entry == kernel["name"]
        assert len(re.findall(r"\.param ", ptx)) == kernel["arguments"]
        assert f".target sm_{kernel['capability'].replace('.', '')}" in ptx
        assert f".reqntid {kernel['threads']}" in ptx
        assert kernel["shared_bytes"] <= SHARED_BYTES
        assert kernel["errors"] == ""


def test_only_what_tensorrt_passes_is_left() -> None:
    kept = without_scratch(PTX, "twice", 2)
    assert re.findall(r"\.param .*", kept) == [
        ".param .u64 .ptr .global .align 1 twice_param_0,",
        ".param .u32 twice_param_1",
    ]
    assert kept.count("twice_param_1") == 2 and ".reqntid 128" in kept


def test_a_kernel_that_uses_scratch_memory_is_refused() -> None:
    used = PTX.replace("}", "	ld.param.b64 %rd2, [twice_param_3];\n}")
    with pytest.raises(EngineError, match="the kernel twice asks Triton's launcher for scratch"):
        without_scratch(used, "twice", 2)
