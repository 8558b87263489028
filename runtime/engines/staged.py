"""Prefill in two stages, for pruners that judge tokens by what the first decoder layers make of
them. A backend that can stop on the way offers it; others need not."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from ...core import PipelineIO
from ...pruners import EarlyStates


@runtime_checkable
class StagedPrefill(Protocol):
    """What an :class:`~edgevlm.runtime.engines.base.LLMEngine` may offer besides.

    A sequence has one length in all layers. So dropped tokens leave the KV cache of the first
    layers too, although those have seen them: the remaining rows close up. What is generated then
    attends to the kept tokens alone in every layer, where the method's authors let it attend to all
    of them in the first few; the prompt's own hidden states are the same.
    """

    def begin(self, slot: int, io: PipelineIO, layers: int) -> EarlyStates:
        """Run the first ``layers`` decoder layers of a whole prompt into ``slot``.

        Raises:
            RequestError: the model has no more layers than that.
        """

    def finish(self, slot: int, io: PipelineIO, layers: int, rows: Tensor) -> Tensor:
        """Run the other layers of the shortened prompt; returns fp32 logits ``[V]``.

        Args:
            io: the prompt of ``begin``'s answer, cut to ``rows``.
            rows: ``[T']`` int64 ascending, the rows of the whole prompt that stay.
        """
