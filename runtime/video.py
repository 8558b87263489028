"""Videos given as frames: pairing, time stamps and size, as Qwen3-VL was trained on them.

The frames are taken as they come: whoever supplies them has sampled them, so none is dropped and
none repeated, except that the last one fills an incomplete group. Each group of
``temporal_patch_size`` frames is one visual item with its own time stamp in the prompt.
"""

from __future__ import annotations

from .image_size import FittedSize, clamp_size, smart_resize
from .preprocessor_config import PreprocessorConfig


def frame_groups(count: int, size: int = 2) -> list[tuple[int, ...]]:
    """Indices ``0..count-1`` in groups of ``size``; the last index fills the last group."""
    starts = range(0, count, size)
    return [tuple(min(start + i, count - 1) for i in range(size)) for start in starts]


def timestamp(group: tuple[int, ...], fps: float) -> float:
    """Seconds at the middle of a group: the mean of its first and last frame's times."""
    return (group[0] / fps + group[-1] / fps) / 2


def timestamp_text(seconds: float) -> str:
    """What the prompt says before a group of frames."""
    return f"<{seconds:.1f} seconds>"


def fit_video(
    count: int,
    height: int,
    width: int,
    config: PreprocessorConfig,
    *,
    factor: int,
    group_size: int = 2,
    max_tokens: int | None = None,
) -> FittedSize:
    """The size all frames of a video are resized to.

    The rule is that of Hugging Face's Qwen3-VL video processor: the bounds are for all frames
    together, and a frame smaller than ``factor`` is first scaled up to it. A single frame counts
    as a full group. ``max_tokens`` is the engine's limit per group.

    Raises:
        RequestError: one side is more than 200 times the other.
    """
    count = max(count, group_size)
    if min(height, width) < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    max_pixels = config.max_pixels
    if config.frame_tokens is not None:
        share = min(config.frame_tokens * factor**2, max_pixels // count)
        max_pixels = max(share, int(config.min_pixels * 1.05)) * count
    size = smart_resize(
        height,
        width,
        factor=factor,
        min_pixels=config.min_pixels,
        max_pixels=max_pixels,
        frames=count,
        counted_frames=round(count / group_size) * group_size,
    )
    return clamp_size(size, factor=factor, original=(height, width), max_tokens=max_tokens)
