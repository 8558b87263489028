"""What a token's alternatives were: log probabilities of the model's own distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class TokenLogprob:
    """One generated token, and the most probable ones at its place, likeliest first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]  # (token id, log probability)


def token_logprobs(
    logits: Tensor, tokens: Sequence[int | None], counts: Sequence[int | None]
) -> list[TokenLogprob | None]:
    """Log probabilities at temperature 1, before any filter, mask or constraint.

    Args:
        logits: ``[n,V]`` fp32, as the engine returned them.
        tokens: the token chosen in each row; ``None`` where there is none.
        counts: how many alternatives each row wants; ``None``: the row wants no log probabilities.

    Returns:
        One entry per row; ``None`` for rows that want none or have no token.
    """
    result: list[TokenLogprob | None] = [None] * len(tokens)
    for row, (token, count) in enumerate(zip(tokens, counts, strict=True)):
        if token is None or count is None:
            continue
        logprobs = logits[row].log_softmax(dim=0)  # [V]
        values, ids = logprobs.topk(min(count, len(logprobs)))
        top = tuple(zip(ids.tolist(), values.tolist(), strict=True))
        result[row] = TokenLogprob(token, float(logprobs[token]), top)
    return result
