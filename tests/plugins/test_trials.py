"""What is launched to see whether Triton works, through its interpreter."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from edgevlm.core.triton_probe import triton_works
from edgevlm.plugins.experts import kernels as experts
from edgevlm.plugins.macs import kernels as macs
from edgevlm.plugins.sere import routing


@pytest.mark.parametrize("module", [experts, macs, routing], ids=["experts", "macs", "sere"])
def test_a_triton_that_works(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    triton_works.cache_clear()
    assert triton_works(torch.device("cpu"), module._trial, module._INSTEAD)
    triton_works.cache_clear()
