"""Fixtures of the pruner tests."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported: kernels run on the CPU

import pytest

from edgevlm.pruners import kernels, registry


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget, after the test, what it registered."""
    entries = dict(registry._REGISTRY._entries)
    monkeypatch.setattr(registry._REGISTRY, "_entries", entries)


@pytest.fixture
def kernels_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pruning take its way through the kernels, as on CUDA, although all tensors are here."""
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
