"""Image decoding: every source, every mode, and every way it can be wrong."""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from edgevlm.core import RequestError, UsageError
from edgevlm.runtime.media import MediaLimits, decode_image
from edgevlm.runtime.source import describe_source

WHITE, RED, BLUE = (255, 255, 255), (255, 0, 0), (0, 0, 255)


def encoded(image: Image.Image, format: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def sample() -> Image.Image:
    return Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds no pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")


@pytest.mark.parametrize("format", ["PNG", "WEBP", "GIF", "BMP"])
def test_every_source_of_one_image_decodes_to_the_same_pixels(tmp_path: Path, format: str) -> None:
    options = {"lossless": True} if format == "WEBP" else {}
    data = encoded(sample().convert("RGB"), format, **options)
    path = tmp_path / "image.bin"  # the content decides, not the name
    path.write_bytes(data)
    uri = f"data:image/{format.lower()};base64," + base64.b64encode(data).decode()
    expected = np.asarray(sample())
    for source in (data, path, str(path), uri, uri.replace("data:", "DATA:")):
        image = decode_image(source)
        assert image.mode == "RGB"
        assert np.array_equal(np.asarray(image), expected)


def test_pixels_can_be_given_directly() -> None:
    pixels = np.asarray(sample())
    for source in (sample(), pixels, torch.from_numpy(pixels.copy()), pixels[:, ::-1][:, ::-1]):
        assert np.array_equal(np.asarray(decode_image(source)), pixels)
    gray = pixels[:, :, 0]
    for source in (gray, gray[:, :, None]):
        assert np.array_equal(np.asarray(decode_image(source))[:, :, 2], gray)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((3, 4, 5), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        torch.zeros(2, 4, 4, 3, dtype=torch.uint8),
    ],
)
def test_arrays_of_another_kind_are_refused(array: object) -> None:
    with pytest.raises(RequestError, match=r"array must be uint8 \[H,W,C\] with 1, 3 or 4"):
        decode_image(array)  # type: ignore[arg-type]


def test_phone_photos_are_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    image = Image.new("RGB", (4, 2), RED)
    image.putpixel((0, 0), BLUE)
    assert decode_image(encoded(image, "JPEG", exif=exif)).size == (2, 4)
    png = encoded(image, exif=exif)
    with Image.open(io.BytesIO(png)) as opened:
        for source in (png, opened):
            upright = decode_image(source)
            assert upright.size == (2, 4)
            assert upright.getpixel((1, 0)) == BLUE


def palette_with_transparency() -> bytes:
    image = Image.new("P", (2, 2), 1)
    image.putpalette([*RED, 255, 0, 255])
    return encoded(image, transparency=1)


@pytest.mark.parametrize(
    "source",
    [
        Image.new("RGBA", (2, 2), (255, 0, 255, 0)),
        encoded(Image.new("RGBA", (2, 2), (255, 0, 255, 0))),
        encoded(Image.new("RGBA", (2, 2), (255, 0, 255, 0)), "WEBP", lossless=True),
        encoded(Image.new("LA", (2, 2), (10, 0))),
        encoded(Image.new("RGB", (2, 2), (255, 0, 255)), transparency=(255, 0, 255)),
        palette_with_transparency(),
        np.zeros((2, 2, 4), np.uint8),
    ],
)
def test_transparency_is_laid_on_white(source: bytes | Image.Image) -> None:
    assert decode_image(source).getpixel((0, 0)) == WHITE


def test_half_transparent_pixels_are_mixed() -> None:
    assert decode_image(Image.new("RGBA", (1, 1), (0, 0, 0, 51))).getpixel((0, 0)) == (204,) * 3


def test_16_bit_greys_are_scaled_not_clipped() -> None:
    wide = np.array([[0, 257 * 100, 65535]], np.uint16)
    for source in (encoded(Image.fromarray(wide)), Image.fromarray(wide.astype(np.int32))):
        assert np.asarray(decode_image(source))[0, :, 0].tolist() == [0, 100, 255]
    beyond = Image.fromarray(np.array([[-5, 70000]], np.int32))
    assert np.asarray(decode_image(beyond))[0, :, 0].tolist() == [0, 255]


def test_other_modes_become_rgb() -> None:
    assert decode_image(Image.new("CMYK", (1, 1), (0, 255, 255, 0))).getpixel((0, 0)) == RED
    assert decode_image(encoded(Image.new("1", (1, 1), 1))).getpixel((0, 0)) == WHITE
    assert decode_image(Image.new("HSV", (1, 1), (0, 255, 255))).getpixel((0, 0)) == RED
    with pytest.raises(RequestError, match="floating-point"):
        decode_image(Image.new("F", (1, 1)))


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "MPO"])
def test_an_animation_is_its_first_frame(format: str) -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in (RED, BLUE)]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:])
    pixel = decode_image(data).getpixel((4, 4))
    assert pixel == pytest.approx(RED, abs=2)


def test_an_image_is_checked_before_it_is_decoded() -> None:
    with pytest.raises(RequestError, match=r"too many pixels.*196000000"):
        decode_image(png_header(14000, 14000))
    with pytest.raises(RequestError, match=r"10x10 = 100 pixels are more than the 99 accepted"):
        decode_image(png_header(10, 10), MediaLimits(max_pixels=99))
    with pytest.raises(RequestError, match="more than the 99 accepted"):
        decode_image(np.zeros((10, 10, 3), np.uint8), MediaLimits(max_pixels=99))


def test_a_file_is_checked_before_it_is_read_whole(tmp_path: Path) -> None:
    data = encoded(sample())
    path = tmp_path / "image.png"
    path.write_bytes(data)
    uri = "data:image/png;base64," + base64.b64encode(data).decode()
    assert decode_image(path, MediaLimits(max_bytes=len(data))).size == (4, 4)
    for source in (data, path, uri, "data:image/png;base64," + "A" * 10000):
        with pytest.raises(RequestError, match=r"more than the .* bytes accepted"):
            decode_image(source, MediaLimits(max_bytes=len(data) - 1))


def test_files_that_cannot_be_images_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "junk.png").write_bytes(b"no image at all")
    Image.new("RGB", (2, 2)).save(tmp_path / "scan.tiff")
    os.mkfifo(tmp_path / "pipe.png")
    for name, message in (
        ("missing.png", "cannot be read (No such file or directory)"),
        (".", "is a directory"),
        ("empty.png", "is empty"),
        ("junk.png", "not an image; accepted: PNG, JPEG, WEBP, GIF, BMP"),
        ("scan.tiff", "not an image; accepted"),
        ("pipe.png", "is not a regular file"),
        ("a" * 300, "File name too long"),
        ("nul\0.png", "is not a file name"),
    ):
        with pytest.raises(RequestError) as caught:
            decode_image(f"{tmp_path}/{name}")
        assert message in str(caught.value)
        assert str(tmp_path)[:50] in str(caught.value)
        assert "\n" not in str(caught.value)


@given(st.binary(max_size=64) | st.integers(1, 700).map(lambda n: ("cut", n)), st.integers(0, 3))
def test_damaged_data_is_one_named_error(damage: object, which: int) -> None:
    format = ("PNG", "JPEG", "WEBP", "GIF")[which]
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    whole = encoded(Image.fromarray(noise), format)
    data = whole[: damage[1]] if isinstance(damage, tuple) else whole[:8] + damage
    with pytest.raises(RequestError, match=r"^<\d+ bytes>: "):
        decode_image(data)


def test_broken_data_uris_are_named_by_their_length() -> None:
    for uri, message in (
        ("data:image/png;base64,@@@@", "is not valid base64"),
        ("data:image/png;base64,AAA", "is not valid base64"),
        ("data:image/png,abc", "base64 only"),
        ("data:image/png;base64", "base64 only"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png;base64,AAAA", "not an image"),
    ):
        with pytest.raises(RequestError, match=message) as caught:
            decode_image(uri)
        assert str(caught.value).startswith(f"<data: URI of {len(uri)} characters>: ")


def test_line_breaks_in_base64_are_fine() -> None:
    text = base64.encodebytes(encoded(sample())).decode()
    assert decode_image(f"data:image/png;base64,{text}").size == (4, 4)


def test_sources_are_described_without_their_content() -> None:
    assert describe_source(b"abc") == "<3 bytes>"
    assert describe_source(Path("a.png")) == "a.png"
    assert describe_source("x" * 500).endswith("... (500 characters)")
    assert describe_source(Image.new("L", (3, 2))) == "<3x2 L image>"
    assert describe_source(np.zeros((2, 3, 3), np.uint8)) == "<array of shape [2, 3, 3]>"


def test_limits_must_be_positive() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        MediaLimits(max_pixels=0)
