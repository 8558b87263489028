"""The selection loops never read a tensor's value on the host, so on a GPU they never wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from edgevlm.pruners.adaptive import distinct_shares
from edgevlm.pruners.contextual import contextual
from edgevlm.pruners.divprune import farthest
from edgevlm.pruners.holov import region_scores
from edgevlm.pruners.scope import cover
from edgevlm.pruners.visionzip import comparable, dominant
from edgevlm.pruners.vispruner import important_and_diverse

CORES: dict[str, Callable[[Tensor, Tensor], object]] = {
    "auto": lambda rows, scores: distinct_shares(rows, torch.randint(1, 10, (3, 2))),
    "divprune": lambda rows, scores: farthest(rows, 10),
    "scope": lambda rows, scores: cover(rows, scores, 10),
    "vispruner": lambda rows, scores: important_and_diverse(rows, scores, 10, 5, 2),
    "holov": lambda rows, scores: region_scores(rows, scores, [10, 10, 10], 0.1),
    "contextual": lambda rows, scores: contextual(rows, 4, "sum"),
    "visionzip": lambda rows, scores: dominant(
        comparable(scores, [30], "zscore"), torch.zeros(30, dtype=torch.int64), 10, 1
    ),
}


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_no_value_is_read(core: Callable[[Tensor, Tensor], object]) -> None:
    with FakeTensorMode():  # tensors without values: reading one raises
        core(torch.randn(30, 8), torch.rand(30))


def test_reading_a_value_would_be_noticed() -> None:
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        float(torch.rand(30)[0])
