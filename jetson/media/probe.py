"""What an image says it is, from its header alone, before anything decodes it."""

from __future__ import annotations

import io

from PIL import Image, UnidentifiedImageError

from ...runtime.media import FORMATS
from ..errors import bad_request


def count_pixels(data: bytes, max_pixels: int, param: str) -> int:
    """Width x height.

    Raises:
        ApiError: 400 naming ``param``: not an image that is accepted, or too large.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise bad_request(f"{param}: more than {max_pixels} pixels", param) from None
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise bad_request(f"{param}: not an image; accepted: {known}", param) from None
    except Exception as error:  # decoders meet hostile bytes with many kinds of exception
        name = type(error).__name__
        raise bad_request(f"{param}: damaged image ({name})", param) from None
    if width * height > max_pixels:
        raise bad_request(
            f"{param}: {width}x{height} = {width * height} pixels are more than the {max_pixels}"
            " accepted; scale it down",
            param,
        )
    return width * height
