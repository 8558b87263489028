"""What the plugins compute is what the operators mean."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.plugins.macs.config import MacsConfig
from edgevlm.plugins.tensorrt.experts import MOE_EXPERTS
from tests.plugins.experts.cases import Shape, assert_near, expected, make

from .calls import check_all, check_capacity, check_experts, check_routing, run_chain

ROOT = Path(__file__).parents[3]


def on_gpu() -> None:
    """The same checks in a process whose kernels are compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.plugins.tensorrt.calls"]
    subprocess.run(command, env=environment, check=True, cwd=ROOT)


def on_cpu() -> None:
    # The interpreter knows no product of bfloat16.
    check_all(torch.device("cpu"), (torch.float16, torch.float32))


@pytest.mark.parametrize("check", [on_cpu, *([on_gpu] if torch.cuda.is_available() else [])])
def test_everything_once(check: object) -> None:
    check()  # type: ignore[operator]


@settings(max_examples=8, deadline=None)
@given(
    shape=st.builds(
        Shape,
        rows=st.integers(1, 20),
        experts=st.integers(4, 9),
        top_k=st.integers(1, 4),
        hidden=st.sampled_from([16, 33]),
        width=st.sampled_from([8, 20]),
    ),
    seed=st.integers(0, 1000),
    drops=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_experts(shape: Shape, seed: int, drops: float) -> None:
    check_experts(shape, torch.float16, seed, drops)


@settings(max_examples=8, deadline=None)
@given(
    rows=st.integers(1, 40),
    experts=st.sampled_from([4, 16, 40]),
    top_k=st.integers(1, 4),
    strong=st.integers(0, 5),
    seed=st.integers(0, 1000),
)
def test_routing(rows: int, experts: int, top_k: int, strong: int, seed: int) -> None:
    check_routing(rows, experts, top_k, strong, seed)


@settings(max_examples=6, deadline=None)
@given(
    rows=st.integers(1, 40),
    factor=st.sampled_from([0.5, 1.0, 4.0]),
    seed=st.integers(0, 1000),
    renormalize=st.booleans(),
)
def test_capacity(rows: int, factor: float, seed: int, renormalize: bool) -> None:
    check_capacity(rows, 6, 2, MacsConfig(capacity_factor=factor, renormalize=renormalize), seed)


def test_any_tile_height_may_meet_any_other() -> None:
    """Which one each product gets is TensorRT's choice, one by one."""
    inputs = make(Shape(60, experts=3, top_k=2, hidden=40, width=24), torch.float16)
    sizes = {"H": 40, "I": 24, "N": 3, "k": 2}
    counts = {la.name: len(la.variants(sizes, "float16")) for la in MOE_EXPERTS.launches}
    heights = counts["GateUp"]
    assert counts == {"Plan": 3, "GateUp": heights, "Down": heights, "Combine": 1} and heights > 2
    for first in range(heights):
        chosen = {"GateUp": first, "Down": heights - 1 - first, "Plan": first % 3}
        found = run_chain(MOE_EXPERTS, inputs, chosen)
        assert_near(found[0], expected(*inputs))
