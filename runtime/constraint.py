"""What a grammar needs to steer sampling: a mask before each token, and word of the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from torch import Tensor


class TokenConstraint(Protocol):
    """The state of one answer that must follow a grammar."""

    @property
    def finished(self) -> bool:
        """Whether the answer is complete and nothing may follow."""

    def allowed(self) -> Tensor:
        """The tokens that may come next: bool ``[V]``, on any device."""

    def accept(self, token: int) -> None:
        """Take the token that was chosen."""


MakeConstraint: TypeAlias = Callable[[], TokenConstraint]
"""Makes the constraint of one answer, at its beginning."""
