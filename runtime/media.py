"""Decoding one image from wherever it comes into upright RGB, without trusting it.

Formats: PNG, JPEG, WEBP, GIF and BMP; of an animation the first frame. The EXIF orientation is
applied, transparency is laid on white, and 16-bit greys are scaled to 8 bits. Colour profiles are
not applied: the model's own preprocessing does not either.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from ..core import RequestError, UsageError
from .source import Array, ImageSource, describe_source, is_data_uri

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


@dataclass(frozen=True)
class MediaLimits:
    """What one image may cost, checked before it is decoded.

    Args:
        max_bytes: size of the encoded file.
        max_pixels: width x height. The default is where Pillow starts to warn of decompression
            bombs; decoded, it is 268 MB. Pillow itself refuses twice that.
    """

    max_bytes: int = 64 * 2**20
    max_pixels: int = 89_478_485

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or self.max_pixels < 1:
            raise UsageError(f"media limits must be at least 1, got {self}")


def decode_image(source: ImageSource, limits: MediaLimits | None = None) -> Image.Image:
    """Return ``source`` as an upright image in mode RGB.

    Raises:
        RequestError: it is missing, empty, not an image of a known format, damaged or too large;
            the message names the source (a ``data:`` URI by its length).
    """
    limits = limits or MediaLimits()
    try:
        if isinstance(source, Image.Image):
            return _upright_rgb(source, limits)
        if isinstance(source, np.ndarray | Tensor):
            return _upright_rgb(_from_array(source), limits)
        with Image.open(io.BytesIO(_read(source, limits)), formats=FORMATS) as image:
            return _upright_rgb(image, limits)
    except RequestError as error:
        raise RequestError(f"{describe_source(source)}: {error}") from None
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise RequestError(f"{describe_source(source)}: not an image; accepted: {known}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RequestError(f"{describe_source(source)}: too many pixels ({error})") from None
    except Exception as error:
        # Decoders meet hostile bytes with many kinds of exception; none of them may end a service.
        raise RequestError(f"{describe_source(source)}: damaged image ({error})") from None


def _read(source: str | os.PathLike[str] | bytes, limits: MediaLimits) -> bytes:
    """The encoded file, at most ``max_bytes`` of it."""
    if isinstance(source, bytes):
        data = source
    elif isinstance(source, str) and is_data_uri(source):
        data = _decode_uri(source, limits)
    else:
        data = _read_file(os.fspath(source), limits)
    if not data:
        raise RequestError("the file is empty")
    if len(data) > limits.max_bytes:
        raise RequestError(f"the file has more than the {limits.max_bytes} bytes accepted")
    return data


def _read_file(name: str, limits: MediaLimits) -> bytes:
    try:
        path = Path(name)
        if path.is_dir():
            raise RequestError("is a directory, not an image file")
        if path.exists() and not path.is_file():  # a pipe would wait, a device would never end
            raise RequestError("is not a regular file")
        with path.open("rb") as file:
            return file.read(limits.max_bytes + 1)
    except OSError as error:
        raise RequestError(f"cannot be read ({error.strerror})") from None
    except ValueError:  # a null character
        raise RequestError("is not a file name") from None


def _decode_uri(uri: str, limits: MediaLimits) -> bytes:
    header, comma, payload = uri.partition(",")
    if not comma or not header.lower().endswith(";base64"):
        raise RequestError("must have the form data:image/...;base64,... (base64 only)")
    if len(payload) > 2 * limits.max_bytes:  # base64 takes 4/3; leave room for line breaks
        raise RequestError(f"has more than the {limits.max_bytes} bytes accepted")
    try:
        return base64.b64decode("".join(payload.split()), validate=True)
    except (binascii.Error, ValueError):
        raise RequestError("is not valid base64") from None


def _from_array(array: Array | Tensor) -> Image.Image:
    """An image from uint8 ``[H,W]`` or ``[H,W,C]`` with 1, 3 or 4 channels."""
    pixels = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    shaped = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))
    if pixels.dtype != np.uint8 or not shaped or pixels.size == 0:
        found = f"{pixels.dtype} {list(pixels.shape)}"
        raise RequestError(f"an array must be uint8 [H,W,C] with 1, 3 or 4 channels, got {found}")
    return Image.fromarray(np.ascontiguousarray(pixels))


def _upright_rgb(image: Image.Image, limits: MediaLimits) -> Image.Image:
    """Check the size, which needs the header only, then decode, turn and flatten."""
    if image.width * image.height > limits.max_pixels:
        size = f"{image.width}x{image.height} = {image.width * image.height} pixels"
        raise RequestError(f"{size} are more than the {limits.max_pixels} accepted; scale it down")
    if min(image.size) < 1:
        raise RequestError(f"has no pixels ({image.width}x{image.height})")
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        image = ImageOps.exif_transpose(image)
    return _to_rgb(image)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise RequestError("floating-point pixels have no known range; convert them to 8 bits")
    if image.mode.startswith("I"):  # 16-bit grey; Pillow's own conversion would clip it to white
        grey = np.asarray(image).clip(0, 65535).astype(np.float32) / 257
        return Image.fromarray((grey + 0.5).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")
