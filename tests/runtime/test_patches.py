"""Patches against the published image and video processors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

from edgevlm.core import CheckpointError
from edgevlm.models import VisionConfig, patch_coordinates
from edgevlm.runtime.image_size import fit_image
from edgevlm.runtime.media import decode_image
from edgevlm.runtime.patches import resize, to_patches
from edgevlm.runtime.preprocessor_config import (
    PreprocessorConfig,
    load_image_config,
    load_video_config,
)

from .sample_checkpoint import IMAGE

VISION = VisionConfig(1, 32, 64, 2, 32, 16, (0,))
# Uneven statistics, so that swapped channels would show.
CONFIG = PreprocessorConfig(4096, 262144, (0.48, 0.46, 0.41), (0.27, 0.26, 0.28))


def noise(height: int, width: int, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(height * width).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "1"])
@pytest.mark.parametrize(
    "size", [(1, 1), (31, 33), (64, 64), (30, 305), (333, 77), (700, 900), (1, 150)]
)
def test_images_equal_the_published_processor(size: tuple[int, int], mode: str) -> None:
    image = decode_image(noise(*size, mode))
    reference = Qwen2VLImageProcessorPil(
        size={"shortest_edge": CONFIG.min_pixels, "longest_edge": CONFIG.max_pixels},
        image_mean=CONFIG.mean,
        image_std=CONFIG.std,
        patch_size=16,
    )(image, return_tensors="pt")
    fitted = fit_image(*size, factor=32, min_pixels=CONFIG.min_pixels, max_pixels=CONFIG.max_pixels)
    patches = to_patches([resize(image, fitted.height, fitted.width)], CONFIG, VISION)
    assert reference["image_grid_thw"].tolist() == [[1, fitted.height // 16, fitted.width // 16]]
    assert patches.dtype == torch.float32
    torch.testing.assert_close(patches, reference["pixel_values"], atol=1e-5, rtol=0)


def test_video_pairs_equal_the_published_processor() -> None:
    frames = [noise(64, 96).point(lambda v, k=k: (v + 40 * k) % 256) for k in range(4)]
    video = torch.from_numpy(np.stack([np.asarray(f) for f in frames])).permute(0, 3, 1, 2)
    mean, std = (torch.tensor(v)[:, None, None] for v in (CONFIG.mean, CONFIG.std))
    expected, *grid = Qwen3VLVideoProcessor.patchify(
        None, (video[None] / 255 - mean) / std, patch_size=16, merge_size=2, temporal_patch_size=2
    )
    pairs = [to_patches(frames[i : i + 2], CONFIG, VISION) for i in (0, 2)]
    assert grid == [2, 4, 6]
    torch.testing.assert_close(torch.cat(pairs), expected[0], atol=1e-5, rtol=0)


def test_only_an_image_of_the_right_size_is_left_alone() -> None:
    image = noise(64, 96)
    assert resize(image, 64, 96) is image
    assert resize(image, 96, 64).size == (64, 96)


def test_rows_follow_the_order_the_networks_assume() -> None:
    height, width = 4, 6  # patches
    grid = np.arange(height * width, dtype=np.uint8).reshape(height, width)
    image = Image.fromarray(np.kron(grid, np.ones((16, 16), np.uint8))).convert("RGB")
    plain = PreprocessorConfig(1, 1 << 20, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    patches = to_patches([image], plain, VISION)
    rows, columns = patch_coordinates(height, width, 2)
    torch.testing.assert_close(patches[:, 0] * 255, (rows * width + columns).float())


def write(folder: Path, name: str, **changes: object) -> None:
    (folder / name).write_text(json.dumps({**IMAGE, **changes}))


def test_size_bounds_are_honoured_under_every_name(tmp_path: Path) -> None:
    def bounds() -> tuple[int, int]:
        config = load_image_config(tmp_path, VISION)
        assert config is not None
        return config.min_pixels, config.max_pixels

    assert load_image_config(tmp_path, VISION) is None
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": IMAGE}))
    assert bounds() == (65536, 1048576)
    assert load_video_config(tmp_path, VISION) is None
    write(tmp_path, "preprocessor_config.json", size={"shortest_edge": 5000, "longest_edge": 9000})
    assert bounds() == (5000, 9000)
    write(tmp_path, "preprocessor_config.json", min_pixels=7000, max_pixels=None)
    assert bounds() == (7000, 1048576)
    write(tmp_path, "preprocessor_config.json", size={"min_pixels": 5, "max_pixels": 6})
    assert bounds() == (5, 6)


def test_the_cap_per_video_frame_is_off_unless_asked_for(tmp_path: Path) -> None:
    def cap(**changes: object) -> int | None:
        write(tmp_path, "video_preprocessor_config.json", **changes)
        config = load_video_config(tmp_path, VISION)
        assert config is not None
        return config.frame_tokens

    assert cap() is None
    assert cap(max_video_tokens=100) is None
    assert cap(cap_pixels_per_frame=True) == 768
    assert cap(cap_pixels_per_frame=True, max_video_tokens=100) == 100


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_size": 14}, "patch_size must be 16, found 14"),
        ({"do_normalize": False}, "do_normalize must be True"),
        ({"resample": 2}, "resample must be 3"),
        ({"rescale_factor": 1 / 127.5}, "rescale_factor must be 1/255"),
        ({"size": {"shortest_edge": 9, "longest_edge": 8}}, "1 <= minimum <= maximum"),
        ({"size": {"height": 9, "width": 8}}, "longest_edge"),
        ({"image_std": [0.5]}, "three numbers"),
        ({"image_mean": None}, "preprocessor_config.json: missing field or wrong form"),
    ],
)
def test_what_is_not_done_here_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    write(tmp_path, "preprocessor_config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        load_image_config(tmp_path, VISION)
