"""The norms kernel against fp64."""

from __future__ import annotations

import pytest
import torch

from edgevlm.pruners.kernels.norms import row_norms


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 16), (5, 24), (9, 600), (6, 1024)])
def test_norms(shape: tuple[int, int], dtype: torch.dtype) -> None:
    embeds = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    l1, l2 = row_norms(embeds)
    torch.testing.assert_close(l1, embeds.double().abs().sum(dim=1).float())
    torch.testing.assert_close(l2, embeds.double().norm(dim=1).float())


def test_equal_rows_have_equal_norms() -> None:
    row = torch.randn(700, generator=torch.Generator().manual_seed(2))
    for norms in row_norms(row.repeat(11, 1)):
        assert len(norms.unique()) == 1


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e25])
def test_a_damaged_row_can_still_be_ranked(value: float) -> None:
    embeds = torch.ones(5, 20)
    embeds[2, 7] = value
    l1, l2 = row_norms(embeds)
    assert l1.tolist() == [20, 20, 0, 20, 20]
    assert l2.isfinite().tolist() == [True, True, False, True, True]
