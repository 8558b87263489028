"""The importance of visual tokens that a visual engine may deliver, for pruners that rank by it."""

from __future__ import annotations

from torch import Tensor

from ..core import RequestError
from .request import PruneRequest


def required_importance(request: PruneRequest) -> Tensor:
    """Return ``io.importance`` ``[T]`` fp32: attention received by each merged visual token.

    Mean over the heads, sum over the queries of the token's own image.

    Raises:
        RequestError: there is none, or it holds a value that is no attention.
    """
    algorithm, importance = request.config.algorithm, request.io.importance
    if importance is None:
        raise RequestError(
            f"visual pruner {algorithm!r} ranks tokens by the attention they receive, which this "
            "visual engine does not deliver: rebuild it with edgevlm build --importance-layer -1, "
            "or choose a pruner that needs none (dart, divprune)"
        )
    if not bool((importance.isfinite() & (importance >= 0)).all()):
        raise RequestError(
            f"visual pruner {algorithm!r} needs finite importance of 0 or more, and the visual "
            "engine delivered NaN, Inf or a negative value: check its dtype"
        )
    return importance.float()
