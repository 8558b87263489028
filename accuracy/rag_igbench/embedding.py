"""Models that make vectors of texts and images, and adapters to the packages that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor

from ...core import UsageError
from .optional import require


class TextEmbedder(Protocol):
    """Texts as vectors; the published figures were made with ``TencentBAC/Conan-embedding-v1``."""

    def texts(self, texts: Sequence[str]) -> Tensor:
        """``[n,D]`` floating point, of any length."""
        ...


class ImageTextEmbedder(Protocol):
    """Texts and images as vectors of one space; the published figures: OpenAI's CLIP ViT-L/14."""

    def texts(self, texts: Sequence[str]) -> Tensor:
        """``[n,D]`` floating point."""
        ...

    def images(self, images: Sequence[Image.Image]) -> Tensor:
        """``[n,D]`` floating point."""
        ...


class SentenceTransformersEmbedder:
    """A model of the package ``sentence-transformers``, by name or by folder.

    Raises:
        UsageError: the package is not installed, or the model does not load.
    """

    def __init__(self, model: str, device: str | None = None) -> None:
        package = "sentence-transformers"
        library = require("sentence_transformers", package, "the alignment score needs it")
        try:
            self._model = library.SentenceTransformer(model, device=device)
        except Exception as error:
            raise _unloadable(package, model, error) from error

    def texts(self, texts: Sequence[str]) -> Tensor:
        """``[n,D]`` fp32."""
        vectors: Tensor = self._model.encode(
            list(texts), convert_to_tensor=True, show_progress_bar=False
        )
        return vectors.float()


class OpenClipEmbedder:
    """A model of the package ``open-clip-torch``: ``ARCHITECTURE:WEIGHTS``, ``ViT-L-14:openai``.

    ``WEIGHTS`` is a tag the package knows or a file.

    Raises:
        UsageError: the package is not installed, or the model does not load.
    """

    def __init__(self, model: str, device: str | None = None) -> None:
        library = require("open_clip", "open-clip-torch", "the CLIP score needs it")
        architecture, separator, weights = model.partition(":")
        if not separator or not architecture or not weights:
            raise UsageError(
                f"image model {model!r} must be ARCHITECTURE:WEIGHTS, as in ViT-L-14:openai"
            )
        self._device = torch.device(device or "cpu")
        try:
            network, _, self._preprocess = library.create_model_and_transforms(
                architecture, pretrained=weights, device=self._device
            )
            self._tokenize = library.get_tokenizer(architecture)
        except Exception as error:
            raise _unloadable("open-clip-torch", model, error) from error
        self._model: Any = network.eval()

    @torch.inference_mode()
    def texts(self, texts: Sequence[str]) -> Tensor:
        """``[n,D]`` fp32."""
        vectors: Tensor = self._model.encode_text(self._tokenize(list(texts)).to(self._device))
        return vectors.float()

    @torch.inference_mode()
    def images(self, images: Sequence[Image.Image]) -> Tensor:
        """``[n,D]`` fp32."""
        pixels = torch.stack([self._preprocess(image.convert("RGB")) for image in images])
        vectors: Tensor = self._model.encode_image(pixels.to(self._device))
        return vectors.float()


def cosines(first: Tensor, second: Tensor) -> list[float]:
    """Cosine of each row of ``first [n,D]`` to the same row of ``second``; 0 for a zero row."""
    values: list[float] = torch.nn.functional.cosine_similarity(
        first.double(), second.double(), dim=-1
    ).tolist()
    return values


def _unloadable(package: str, model: str, error: Exception) -> UsageError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return UsageError(f"{package} cannot load the model {model!r}: {reason}")
