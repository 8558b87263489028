"""The adapters, against stand-ins for the packages."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

from edgevlm.accuracy.rag_igbench.embedding import OpenClipEmbedder, SentenceTransformersEmbedder
from edgevlm.core import UsageError


@pytest.mark.parametrize(
    ("module", "package", "make"),
    [
        ("sentence_transformers", "sentence-transformers", SentenceTransformersEmbedder),
        ("open_clip", "open-clip-torch", OpenClipEmbedder),
    ],
)
def test_an_absent_package_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, make: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"^{package} is not installed.*pip install {package}$"):
        make("some:model")


def test_a_broken_package_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "open_clip":
                raise ModuleNotFoundError("No module named 'timm'", name="timm")

    monkeypatch.delitem(sys.modules, "open_clip", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(UsageError, match="open-clip-torch does not import: No module named 'timm'"):
        OpenClipEmbedder("a:b")


def test_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def __init__(self, name: str, device: str | None) -> None:
            if name == "none such":
                raise OSError("not\nfound")
            self.device = device

        def encode(self, texts: list[str], **options: object) -> torch.Tensor:
            assert options == {"convert_to_tensor": True, "show_progress_bar": False}
            return torch.tensor([[len(text), 1] for text in texts], dtype=torch.float16)

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    vectors = SentenceTransformersEmbedder("small").texts(["abc", ""])
    assert vectors.tolist() == [[3, 1], [0, 1]] and vectors.dtype == torch.float32
    with pytest.raises(UsageError, match="cannot load the model 'none such': not found"):
        SentenceTransformersEmbedder("none such")


def test_open_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(torch.nn.Module):
        def encode_text(self, tokens: torch.Tensor) -> torch.Tensor:
            assert not self.training
            return tokens.half()

        def encode_image(self, pixels: torch.Tensor) -> torch.Tensor:
            return pixels.mean(dim=(-1, -2))

    def create(name: str, pretrained: str, device: torch.device) -> tuple[Any, Any, Any]:
        if pretrained != "openai":
            raise RuntimeError(f"no weights {pretrained}")
        assert (name, device) == ("ViT-L-14", torch.device("cpu"))

        def pixels(image: Image.Image) -> torch.Tensor:
            return torch.tensor(image.getpixel((0, 0)))[:, None, None] / 255

        return Model(), None, pixels

    stand_in = SimpleNamespace(
        create_model_and_transforms=create,
        get_tokenizer=lambda name: lambda texts: torch.tensor([[len(t)] for t in texts]),
    )
    monkeypatch.setitem(sys.modules, "open_clip", stand_in)  # type: ignore[arg-type]
    embedder = OpenClipEmbedder("ViT-L-14:openai")
    assert embedder.texts(["ab", "a"]).tolist() == [[2], [1]]
    assert embedder.images([Image.new("L", (4, 4), 255)]).tolist() == [[1, 1, 1]]
    with pytest.raises(UsageError, match="'ViT-L-14' must be ARCHITECTURE:WEIGHTS"):
        OpenClipEmbedder("ViT-L-14")
    with pytest.raises(UsageError, match="cannot load the model 'ViT-L-14:mine': no weights mine"):
        OpenClipEmbedder("ViT-L-14:mine")
