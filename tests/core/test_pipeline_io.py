"""An assembled prompt whose parts do not fit together cannot be made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgevlm.core import PipelineIO, VisualSpan


def make(**changes: Any) -> PipelineIO:
    fields = {
        "token_ids": torch.zeros(6, dtype=torch.int64),
        "embeds": torch.zeros(6, 4),
        "deepstack": torch.zeros(3, 6, 4),
        "positions": torch.zeros(3, 6, dtype=torch.int64),
        "spans": (VisualSpan(1, 3, 0), VisualSpan(3, 5, 1)),
        "next_position": 6,
    }
    return PipelineIO(**{**fields, **changes})


def test_lengths() -> None:
    io = make()
    assert (len(io), io.visual_tokens) == (6, 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token_ids", torch.zeros(5, dtype=torch.int64)),
        ("deepstack", torch.zeros(3, 6, 5)),
        ("positions", torch.zeros(3, 7, dtype=torch.int64)),
        ("importance", torch.zeros(4)),
    ],
)
def test_shapes_must_agree(name: str, value: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=name):
        make(**{name: value})


@pytest.mark.parametrize("spans", [((3, 5), (1, 3)), ((1, 4), (3, 5)), ((4, 7),)])
def test_spans_ascend_inside_the_prompt(spans: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        make(spans=tuple(VisualSpan(a, b, 0) for a, b in spans))


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 1)])
def test_a_span_is_not_empty(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="start < end"):
        VisualSpan(start, end, 0)
