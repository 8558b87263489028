"""The table of spans that the kernels read."""

from __future__ import annotations

import torch

from edgevlm.pruners.kernels.places import place_table

from .prompts import prompt


def test_one_row_per_span_and_one_for_the_text() -> None:
    made = prompt(20, [(3, 8), (12, 18)])
    assert place_table(made.layout, torch.device("cpu")).tolist() == [
        [3, 5, 3, 3, 0],
        [12, 6, 3, 7, 3],
        [20, 9, 9, 9, 0],
    ]


def test_the_table_of_a_layout_that_comes_again_is_kept() -> None:
    device = torch.device("cpu")
    table = place_table(prompt(20, [(3, 8)]).layout, device)
    assert place_table(prompt(20, [(3, 8)], seed=1).layout, device) is table
    assert place_table(prompt(20, [(3, 8)], ratio=0.25).layout, device) is not table
    assert place_table(prompt(21, [(3, 8)]).layout, device) is not table
