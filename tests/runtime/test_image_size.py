"""Image sizes: the published rule, its published results, and the engine's limit."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize as reference

from edgevlm.core import RequestError
from edgevlm.runtime.image_size import (
    FittedSize,
    fit_image,
    keep_image,
    shrink_size,
    smart_resize,
)

FACTOR = 32
SIDES = st.integers(1, 6000)


@pytest.mark.parametrize(
    ("size", "expected", "tokens"),
    [
        ((1, 1), (256, 256), 64),
        ((26, 26), (256, 256), 64),
        ((30, 305), (96, 832), 78),
        ((16, 16), (256, 256), 64),
        ((8000, 8000), (4096, 4096), 16384),
        ((3000, 4000), (3008, 4000), 11750),
        ((1, 200), (32, 3648), 114),
    ],
)
def test_known_sizes(size: tuple[int, int], expected: tuple[int, int], tokens: int) -> None:
    fitted = fit_image(*size, factor=FACTOR, min_pixels=65536, max_pixels=16777216)
    assert (fitted.height, fitted.width) == expected
    assert fitted.wanted_tokens == tokens
    assert not fitted.clamped


@pytest.mark.parametrize(("side", "expected"), [(80, 64), (144, 128), (112, 128), (176, 192)])
def test_half_a_factor_rounds_to_even(side: int, expected: int) -> None:
    size = smart_resize(side, side, factor=FACTOR, min_pixels=1, max_pixels=1 << 24)
    assert size == (expected, expected)


@given(SIDES, SIDES, st.sampled_from([28, 32]), st.integers(1, 1 << 17), st.integers(0, 1 << 24))
def test_equals_the_published_rule(
    height: int, width: int, factor: int, low: int, extra: int
) -> None:
    bounds = {"factor": factor, "min_pixels": low, "max_pixels": low + extra}
    try:
        expected = reference(height, width, **bounds)
    except ValueError:
        with pytest.raises(RequestError, match="at most 200"):
            smart_resize(height, width, **bounds)
    else:
        assert smart_resize(height, width, **bounds) == expected


def test_too_thin_is_named() -> None:
    with pytest.raises(RequestError, match=r"201x1 has an aspect ratio of 201; at most 200"):
        fit_image(1, 201, factor=FACTOR, min_pixels=65536, max_pixels=16777216)


@given(SIDES, SIDES, st.integers(1, 2000))
def test_the_engine_limit_always_holds(height: int, width: int, most: int) -> None:
    assume(max(height, width) <= 200 * min(height, width))
    bounds = {"factor": FACTOR, "min_pixels": 65536, "max_pixels": 16777216}
    free = fit_image(height, width, **bounds)
    fitted = fit_image(height, width, **bounds, max_tokens=most)
    tokens = fitted.height * fitted.width // FACTOR**2
    assert 1 <= tokens <= most
    assert fitted.height % FACTOR == fitted.width % FACTOR == 0
    assert fitted.clamped == (free.wanted_tokens > most)
    if not fitted.clamped:
        assert fitted == free


@given(st.integers(200, 4000), st.integers(200, 4000), st.integers(36, 2000))
def test_the_engine_limit_acts_as_the_published_upper_bound(
    height: int, width: int, most: int
) -> None:
    low = 36 * FACTOR**2
    fitted = fit_image(
        height, width, factor=FACTOR, min_pixels=low, max_pixels=1 << 24, max_tokens=most
    )
    expected = reference(height, width, FACTOR, low, most * FACTOR**2)
    assume(math.prod(expected) <= most * FACTOR**2)  # a thin image may exceed its own bound
    assert (fitted.height, fitted.width) == expected


def test_an_image_grown_to_a_minimum_beyond_the_engine_fills_the_engine() -> None:
    bounds = {"factor": FACTOR, "min_pixels": 65536, "max_pixels": 1 << 24}
    for size, expected in (((10, 10), (160, 160)), ((10, 30), (96, 288)), ((1, 100), (32, 960))):
        fitted = fit_image(*size, **bounds, max_tokens=30)
        assert (fitted.height, fitted.width) == expected


def test_an_unresized_image_must_fit_by_itself() -> None:
    kept = keep_image(64, 96, factor=FACTOR, max_tokens=6)
    assert (kept.height, kept.width, kept.wanted_tokens) == (64, 96, 6)
    with pytest.raises(RequestError, match="multiples of 32"):
        keep_image(64, 100, factor=FACTOR, max_tokens=None)
    with pytest.raises(RequestError, match="is 6 visual tokens, the engine takes at most 5"):
        keep_image(64, 96, factor=FACTOR, max_tokens=5)


def shrunk(rows: int, columns: int, tokens: int) -> tuple[int, int]:
    size = FittedSize(rows * FACTOR, columns * FACTOR, False, rows * columns)
    smaller = shrink_size(size, tokens, factor=FACTOR)
    assert smaller.wanted_tokens == size.wanted_tokens
    assert smaller.height % FACTOR == smaller.width % FACTOR == 0
    return smaller.height // FACTOR, smaller.width // FACTOR


@pytest.mark.parametrize(
    ("size", "tokens", "expected"),
    [
        ((8, 8), 48, (7, 7)),
        ((16, 16), 64, (8, 8)),
        ((8, 12), 48, (6, 8)),
        ((12, 8), 48, (8, 6)),
        ((40, 1), 30, (30, 1)),
    ],
)
def test_shrinking_keeps_the_shape(
    size: tuple[int, int], tokens: int, expected: tuple[int, int]
) -> None:
    assert shrunk(*size, tokens) == expected


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 1))
def test_shrinking_comes_close_and_never_grows(rows: int, columns: int, share: float) -> None:
    tokens = math.ceil(rows * columns * share)
    height, width = shrunk(rows, columns, tokens)
    assert 1 <= height <= rows and 1 <= width <= columns
    assert abs(height * width - tokens) <= min(height, width)
