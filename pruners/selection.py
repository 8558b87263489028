"""What a pruner answers: the rows that stay, and how dropped ones are merged into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

_Select = TypeVar("_Select", bound=Callable[..., Any])


@dataclass(frozen=True)
class MergeWeights:
    """Kept tokens that become weighted sums of visual tokens: ``m`` terms, in any order.

    A kept row that occurs in ``rows`` is replaced, in the embeddings and in every DeepStack plane,
    by the sum of ``weights * x[sources]`` over its terms, taken in fp32; it counts itself only if
    it is among its own sources. Its position does not change.
    """

    rows: Tensor  # [m] int64, kept visual rows, numbered as in the unpruned prompt
    sources: Tensor  # [m] int64, visual rows, numbered alike
    weights: Tensor  # [m] fp32


@dataclass(frozen=True)
class Selection:
    """The visual rows to keep, and optionally what is merged into some of them."""

    kept: Tensor  # [k] int64
    merge: MergeWeights | None = None


def keeps_quotas(select: _Select) -> _Select:
    """Mark a ``select`` whose answer is trusted: it is not checked, and nothing waits for it.

    If it answers with a tensor, that is int64 on the prompt's device, ascending, with exactly
    ``request.quotas[i]`` rows of span ``i``; it waits for the device no more than it must; and a
    :class:`Selection` is checked all the same. On
    CUDA the embeddings may hold NaN or Inf, which is found out later: then the answer may be any
    that keeps the promise. The mark belongs to the method; an override does not inherit it.
    """
    select.keeps_quotas = True  # type: ignore[attr-defined]
    return select
