"""Launching: a compiled variant is found again by what it depends on, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgevlm.core import launch
from edgevlm.core.launch import Kernel, blocks, power_of_two


class Recorder:
    """Stands in for a jitted function and for what it compiles to."""

    def __init__(self, log: list[str], name: str = "jit") -> None:
        self.log, self.name = log, name

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        def launch(*arguments: Any, **options: int) -> Recorder:
            numbers = [a for a in arguments if not isinstance(a, torch.Tensor)]
            self.log.append(f"{self.name} {grid} {numbers} {options}")
            return Recorder(self.log, "compiled")

        return launch


def test_variants() -> None:
    log: list[str] = []
    kernel = Kernel(Recorder(log), num_warps=4)
    x = torch.zeros(8)
    kernel((2, 1, 1), (x,), (7,), (16,))
    other = x.clone()
    kernel((3, 1, 1), (other,), (8,), (16,))  # neither grid nor numbers matter
    assert log == [
        "jit (2, 1, 1) [7, 16] {'num_warps': 4}",
        f"compiled (3, 1, 1) [{other.data_ptr()}, 8, 16] {{}}",  # tensors as plain addresses
    ]
    log.clear()
    kernel((2, 1, 1), (x.half(),), (7,), (16,))
    kernel((2, 1, 1), (x[1:],), (7,), (16,))  # 4 bytes off
    kernel((2, 1, 1), (x,), (7,), (32,))
    assert [entry.split()[0] for entry in log] == ["jit"] * 3


@pytest.mark.parametrize("able", [False, True])
def test_overlap(able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "launches_overlap", lambda device: able)
    log: list[str] = []
    kernel = launch.Kernel(Recorder(log), overlaps=True, num_warps=4)
    kernel((2, 1, 1), (torch.zeros(8),), (7,), (16,))
    options = {"num_warps": 4, "launch_pdl": True} if able else {"num_warps": 4}
    assert log == [f"jit (2, 1, 1) [7, 16, {able}] {options}"]
    log.clear()
    other = launch.Kernel(Recorder(log), overlaps=True)
    other((2, 1, 1), (torch.zeros(8),), (7,), (16,), overlap=False)
    assert log == ["jit (2, 1, 1) [7, 16, False] {}"]


def test_sizes() -> None:
    assert [blocks(n, 4) for n in (1, 4, 5)] == [1, 1, 2]
    assert [power_of_two(n) for n in (1, 2, 3, 16, 17)] == [1, 2, 4, 16, 32]
