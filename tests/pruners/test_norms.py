"""Row norms: fp32 whatever the input, and damage that is found by them."""

from __future__ import annotations

import pytest
import torch

from edgevlm.core import RequestError
from edgevlm.pruners.norms import RowNorms, require_finite


@pytest.mark.parametrize("through_kernels", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_norms(dtype: torch.dtype, through_kernels: bool, request) -> None:
    if through_kernels:
        request.getfixturevalue("kernels_everywhere")
    embeds = (200 * torch.randn(9, 48)).to(dtype)  # squares overflow fp16
    norms = RowNorms(embeds)
    torch.testing.assert_close(norms.l1, embeds.double().abs().sum(dim=1).float())
    torch.testing.assert_close(norms.l2, embeds.double().norm(dim=1).float())
    require_finite(norms.l2)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e38])
def test_the_first_damaged_row_is_named(value: float) -> None:
    embeds = torch.ones(6, 3)
    embeds[5, 0] = embeds[3, 2] = value
    with pytest.raises(RequestError, match="NaN or Inf, first at token 3"):
        require_finite(RowNorms(embeds).l2)
