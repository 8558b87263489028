"""DART's selection: golden vectors, a slow reference, and the invariants of the method."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import PipelineIO, RequestError, UsageError
from edgevlm.pruners import VisualPrunerConfig, create_visual_pruner

from .dart_reference import dart_reference, strongest
from .helpers import make_io
from .strategies import layouts

ratios = st.sampled_from([0.1, 0.25, 0.5, 0.7, 0.9])
pivot_counts = st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(any)
reproducible = settings(max_examples=150, deadline=None, derandomize=True)


def dart(io: PipelineIO, ratio: float = 0.5, image: int = 4, text: int = 4) -> list[int]:
    options = {"pivot_image_tokens": image, "pivot_text_tokens": text}
    config = VisualPrunerConfig(True, "dart", ratio, min_visual_tokens=0, options=options)
    return list(create_visual_pruner(config).prune(io)[1].kept_positions)


def golden_embeds() -> torch.Tensor:
    i, j = torch.arange(24)[:, None], torch.arange(4)
    return ((7 * i + 3 * j + 2 * i * j + 1) % 11 - 5).float()  # [24,4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("ratio", "pivots", "expected"),
    [
        (0.25, 2, [3, 5, 6, 7, 9, 10, 14, 16, 17, 18, 19, 20]),
        (0.5, 2, [3, 5, 6, 7, 14, 16, 17, 18]),
        (0.5, 4, [3, 6, 7, 8, 13, 14, 17, 19]),
        (0.9, 4, [6, 17]),
    ],
)
def test_golden_vectors(ratio: float, pivots: int, expected: list[int], dtype: torch.dtype) -> None:
    io = make_io(24, [(3, 11), (13, 21)], embeds=golden_embeds(), dtype=dtype)
    assert dart(io, ratio, pivots, pivots) == expected


def test_golden_single_span_is_left_alone() -> None:
    io = make_io(24, [(3, 11)], embeds=golden_embeds())
    same, report = create_visual_pruner(VisualPrunerConfig(enabled=True)).prune(io)
    assert same is io
    assert report.skipped == "fewer visual tokens than min_visual_tokens"


def assert_matches_reference(io: PipelineIO, ratio: float, image: int, text: int) -> None:
    spans = [(span.start, span.end) for span in io.spans]
    expected = dart_reference(io.embeds.tolist(), spans, ratio, image, text)
    assert dart(io, ratio, image, text) == expected


@reproducible
@given(layouts(), ratios, pivot_counts, st.integers(0, 10**6))
def test_agrees_with_the_reference(layout, ratio, pivots, seed) -> None:
    assert_matches_reference(make_io(*layout, seed=seed), ratio, *pivots)


@reproducible
@given(layouts(), ratios, pivot_counts, st.data())
def test_ties_go_to_the_lower_position(layout, ratio, pivots, data) -> None:
    # With entries of -1, 0 and 1 equal cosines are equal in any precision, and there are many.
    size = 4 * layout[0]
    entries = data.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size))
    embeds = torch.tensor(entries, dtype=torch.float32).view(-1, 4)
    assert_matches_reference(make_io(*layout, embeds=embeds), ratio, *pivots)


@reproducible
@given(layouts(), ratios, pivot_counts, st.integers(0, 10**6))
def test_each_span_keeps_exactly_its_quota(layout, ratio, pivots, seed) -> None:
    kept = dart(make_io(*layout, seed=seed), ratio, *pivots)
    for start, end in layout[1]:
        quota = max(1, -((start - end) * round((1 - ratio) * 100) // 100))
        assert sum(start <= row < end for row in kept) == quota


@reproducible
@given(layouts(), ratios, st.integers(0, 10**6))
def test_image_pivots_beyond_the_quota_are_plain_top_l1(layout, ratio, seed) -> None:
    io = make_io(*layout, seed=seed)
    strength = io.embeds.abs().sum(-1).tolist()
    expected = []
    for start, end in layout[1]:
        quota = max(1, -((start - end) * round((1 - ratio) * 100) // 100))
        expected += strongest(range(start, end), strength)[:quota]
    assert dart(io, ratio, image=20, text=4) == sorted(expected)


def test_permuting_images_permutes_the_result() -> None:
    io = make_io(30, [(4, 14), (16, 26)])
    swapped = torch.cat((torch.arange(4), torch.arange(16, 26), torch.tensor([14, 15])))
    swapped = torch.cat((swapped, torch.arange(4, 14), torch.arange(26, 30)))
    kept = dart(make_io(30, [(4, 14), (16, 26)], embeds=io.embeds[swapped]))
    assert sorted(swapped[kept].tolist()) == dart(io)


def test_without_text_pivots_an_image_is_judged_alone() -> None:
    io = make_io(40, [(4, 16), (20, 32)])
    embeds = torch.randn(40, 8, generator=torch.Generator().manual_seed(9))
    embeds[20:32] = io.embeds[20:32]
    other = make_io(40, [(4, 16), (20, 32)], embeds=embeds)

    def second_image(prompt: PipelineIO, text: int) -> list[int]:
        return [row for row in dart(prompt, image=2, text=text) if row >= 20]

    assert second_image(io, text=0) == second_image(other, text=0)
    assert second_image(io, text=5) != second_image(other, text=5)


def test_adjacent_images_keep_their_own_quotas() -> None:
    kept = dart(make_io(22, [(1, 11), (11, 21)]))
    assert [sum(row < 11 for row in kept), sum(row >= 11 for row in kept)] == [5, 5]


def test_a_span_of_one_token_stays() -> None:
    assert 3 in dart(make_io(30, [(3, 4), (6, 26)]), ratio=0.9)


def test_identical_tokens_go_by_position() -> None:
    io = make_io(14, [(2, 12)], embeds=torch.ones(14, 8))
    assert dart(io, ratio=0.5) == [2, 3, 4, 5, 6]


def test_zero_rows_are_unrelated_to_everything() -> None:
    # The pivot is row 1; row 2 repeats it, row 3 opposes it, row 4 is zero: cosines 1, -1, 0.
    embeds = torch.tensor([[0.0, 0], [2, 0], [1, 0], [-1, 0], [0, 0], [0, 0]])
    io = make_io(6, [(1, 5)], embeds=embeds)
    assert dart(io, ratio=0.5, image=1, text=0) == [1, 3]
    assert dart(io, ratio=0.25, image=1, text=0) == [1, 3, 4]
    assert dart(make_io(6, [(1, 5)], embeds=torch.zeros(6, 2)), ratio=0.5) == [1, 2]


def test_prompt_without_text() -> None:
    io = make_io(20, [(0, 20)])
    assert len(dart(io)) == 10
    with pytest.raises(RequestError, match=r"no pivot.*pivot_image_tokens is 0"):
        dart(io, image=0)


def test_half_precision_accumulates_in_fp32() -> None:
    # Each row's L1 norm, 80000, overflows fp16; only a wider sum tells the rows apart.
    embeds = torch.full((20, 4), 20000.0)
    embeds[:, 0] += torch.arange(20) * 64
    io = make_io(20, [(2, 18)], embeds=embeds, dtype=torch.float16)
    assert dart(io, ratio=0.75, image=4) == [14, 15, 16, 17]


@pytest.mark.parametrize(("image", "text"), [(0, 0), (-1, 4), (65, 0), (33, 32), (4, -1)])
def test_illegal_pivot_counts(image: int, text: int) -> None:
    with pytest.raises(UsageError, match="each be 0 to 64 and together 1 to 64"):
        dart(make_io(20, [(0, 18)]), image=image, text=text)
