"""Devices by name."""

from __future__ import annotations

import pytest
import torch

from edgevlm.benchmarks.device import open_device
from edgevlm.core import UsageError


def test_a_device_that_is_there() -> None:
    assert open_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["nonsense", "cuda:99"])
def test_a_device_that_is_not(name: str) -> None:
    with pytest.raises(UsageError, match=f"device '{name}' cannot be used: ") as caught:
        open_device(name)
    assert "\n" not in str(caught.value)
