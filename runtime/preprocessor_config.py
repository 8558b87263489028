"""How a checkpoint wants its images and videos prepared, read from its processor files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import CheckpointError
from ..models import VisionConfig
from .json_file import read_json

_BICUBIC = 3  # Pillow's number for it, which the files use
_SIZES = (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels"))


@dataclass(frozen=True)
class PreprocessorConfig:
    """Size bounds in pixels (of an image, or of all frames of a video) and channel statistics.

    Args:
        frame_tokens: cap of visual tokens per video frame where the checkpoint asks for one.
    """

    min_pixels: int
    max_pixels: int
    mean: tuple[float, ...]  # [3], of pixels scaled to 0..1
    std: tuple[float, ...]  # [3]
    frame_tokens: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.min_pixels <= self.max_pixels:
            raise CheckpointError(
                f"size bounds must be 1 <= minimum <= maximum pixels, got {self.min_pixels} and "
                f"{self.max_pixels}"
            )
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise CheckpointError("image_mean and image_std need three numbers, image_std above 0")


def load_image_config(directory: Path, vision: VisionConfig) -> PreprocessorConfig | None:
    """Read ``preprocessor_config.json``, or the image part of ``processor_config.json``.

    Returns:
        ``None`` if neither is there.

    Raises:
        CheckpointError: the file is unusable, or asks for what is not done here.
    """
    return _load(directory, "preprocessor_config.json", "image_processor", vision)


def load_video_config(directory: Path, vision: VisionConfig) -> PreprocessorConfig | None:
    """The same for ``video_preprocessor_config.json`` and the video part."""
    return _load(directory, "video_preprocessor_config.json", "video_processor", vision)


def _load(
    directory: Path, file: str, section: str, vision: VisionConfig
) -> PreprocessorConfig | None:
    path, raw = directory / file, read_json(directory / file)
    if raw is None:
        path = directory / "processor_config.json"
        raw = (read_json(path) or {}).get(section)
    if raw is None:
        return None
    try:
        return _parse(raw, vision)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise CheckpointError(f"{path}: missing field or wrong form ({error})") from None


def _parse(raw: dict[str, Any], vision: VisionConfig) -> PreprocessorConfig:
    for key, wanted in (
        ("do_resize", True),
        ("do_rescale", True),
        ("do_normalize", True),
        ("resample", _BICUBIC),
        ("patch_size", vision.patch_size),
        ("temporal_patch_size", vision.temporal_patch_size),
        ("merge_size", vision.merge_size),
    ):
        if raw.get(key) not in (None, wanted):
            raise CheckpointError(f"{key} must be {wanted}, found {raw[key]}")
    scale = float(raw.get("rescale_factor") or 1 / 255)
    if abs(scale * 255 - 1) > 1e-6:
        raise CheckpointError(f"rescale_factor must be 1/255, found {scale}")
    size = raw.get("size") or {}
    # The older keys, where a checkpoint or its user sets them, come first, as they always have.
    low, high = (raw.get(old) or size.get(new) or size.get(old) for new, old in _SIZES)
    if low is None or high is None:
        raise CheckpointError('size needs "shortest_edge" and "longest_edge" (in pixels of area)')
    capped = bool(raw.get("cap_pixels_per_frame"))
    return PreprocessorConfig(
        min_pixels=int(low),
        max_pixels=int(high),
        mean=tuple(float(value) for value in raw["image_mean"]),
        std=tuple(float(value) for value in raw["image_std"]),
        frame_tokens=int(raw.get("max_video_tokens") or 768) if capped else None,
    )
