"""Videos given as frames: groups, time stamps and sizes, against the published processor."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import (
    Qwen3VLVideoProcessor,
)
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as reference

from edgevlm.core import RequestError
from edgevlm.runtime.preprocessor_config import PreprocessorConfig
from edgevlm.runtime.video import fit_video, frame_groups, timestamp, timestamp_text

HALF = (0.5, 0.5, 0.5)


@given(st.integers(1, 40), st.floats(0.1, 120))
def test_timestamps_equal_the_published_processor(count: int, fps: float) -> None:
    expected = Qwen3VLProcessor._calculate_timestamps(None, list(range(count)), fps, 2)
    assert [timestamp(group, fps) for group in frame_groups(count)] == expected


def test_the_last_frame_fills_an_incomplete_pair() -> None:
    assert frame_groups(5) == [(0, 1), (2, 3), (4, 4)]
    assert frame_groups(1) == [(0, 0)]
    texts = [timestamp_text(timestamp(group, 2.0)) for group in frame_groups(5)]
    assert texts == ["<0.2 seconds>", "<1.2 seconds>", "<2.0 seconds>"]


SIZES = {
    "count": st.integers(2, 64),
    "height": st.integers(1, 2000),
    "width": st.integers(1, 2000),
    "low": st.integers(1, 1 << 18),
    "extra": st.integers(0, 1 << 24),
}


@given(**SIZES)
def test_sizes_equal_the_published_rule(
    count: int, height: int, width: int, low: int, extra: int
) -> None:
    config = PreprocessorConfig(low, low + extra, HALF, HALF)
    try:
        expected = reference(
            count, height, width, factor=32, min_pixels=low, max_pixels=low + extra
        )
    except ValueError:
        with pytest.raises(RequestError, match="at most 200"):
            fit_video(count, height, width, config, factor=32)
    else:
        fitted = fit_video(count, height, width, config, factor=32)
        assert (fitted.height, fitted.width) == expected


def test_an_odd_number_of_frames_is_counted_half_to_even() -> None:
    config = PreprocessorConfig(1, 18000, HALF, HALF)
    for count, side in ((5, 64), (7, 32)):  # counted as 4 and as 8 frames of 64 x 64
        assert reference(count, 64, 64, factor=32, min_pixels=1, max_pixels=18000) == (side, side)
        fitted = fit_video(count, 64, 64, config, factor=32)
        assert (fitted.height, fitted.width) == (side, side)


@given(**SIZES)
def test_the_cap_per_frame_equals_the_published_one(
    count: int, height: int, width: int, low: int, extra: int
) -> None:
    assume(max(height, width) < 200 * min(height, width))
    config = PreprocessorConfig(low, low + extra, HALF, HALF, frame_tokens=768)
    fitted = fit_video(count, height, width, config, factor=32)
    published = Qwen3VLVideoProcessor(
        size={"shortest_edge": low, "longest_edge": low + extra}, cap_pixels_per_frame=True
    )
    patches = len(frame_groups(count)) * fitted.height * fitted.width // 256
    assert patches == published.get_num_of_video_patches(count, height, width)


def test_one_frame_counts_as_a_full_pair() -> None:
    config = PreprocessorConfig(4096, 1 << 20, HALF, HALF)
    single = fit_video(1, 1000, 1000, config, factor=32)
    assert single == fit_video(2, 1000, 1000, config, factor=32)


@given(st.integers(1, 12), st.integers(8, 2000), st.integers(8, 2000), st.integers(1, 300))
def test_the_engine_limit_holds_per_pair(count: int, height: int, width: int, most: int) -> None:
    config = PreprocessorConfig(4096, 25165824, HALF, HALF)
    assume(max(height, width) <= 200 * min(height, width))
    fitted = fit_video(count, height, width, config, factor=32, max_tokens=most)
    assert fitted.height * fitted.width // 1024 <= most
    assert fitted.clamped == (fitted.wanted_tokens > most)
