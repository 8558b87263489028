"""A Hugging Face checkpoint directory: configuration, tensors without a copy, a fingerprint.

Published Qwen3-VL checkpoints name the language model ``model.language_model.*``, the vision tower
``model.visual.*`` and the head ``lm_head.weight``, which is absent where it is tied to the token
embeddings. A checkpoint of the bare model, without its head, has the same names less ``model.``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..core import CheckpointError
from .config import load_config
from .safetensors_file import SafetensorsFile, TensorInfo
from .text import TextModel
from .vision import VisionTower

Config = TypeVar("Config")

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PREFIXES = {"llm": "model.language_model.", "visual": "model.visual."}
_EMBEDDING = "embed_tokens.weight"
_WEIGHT_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_SAMPLES, _SAMPLE_BYTES = 64, 64 * 1024


class Checkpoint:
    """One checkpoint directory, opened and checked; no weight is read until it is used.

    Raises:
        CheckpointError: a file is missing, truncated or malformed, or the architecture is not
            supported; the message names the file.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise CheckpointError(
                f"{directory}: no such directory; give that of a downloaded Hugging Face checkpoint"
            )
        self.directory = directory
        self.config = load_config(directory)
        self._files = {name: SafetensorsFile(directory / name) for name in self._shard_names()}
        self.tensors: dict[str, TensorInfo] = {}
        for file in self._files.values():
            self.tensors.update(file.tensors)
        self._views: dict[str, Tensor] = {}

    @property
    def nbytes(self) -> int:
        """Total size of the weight files."""
        return sum(file.size for file in self._files.values())

    def info(self, name: str) -> TensorInfo:
        """Dtype, shape and place of the tensor called ``name`` in the checkpoint.

        Raises:
            CheckpointError: there is none.
        """
        try:
            return self.tensors[name]
        except KeyError:
            raise CheckpointError(
                f"{self.directory}: tensor {name!r} is missing; is the checkpoint complete?"
            ) from None

    def tensor(self, name: str) -> Tensor:
        """The tensor called ``name``: the same view of the mapped file each time, never a copy."""
        if name not in self._views:
            info = self.info(name)
            self._views[name] = self._files[info.file].tensor(info)
        return self._views[name]

    def weight(self, network: str, parameter: str, shape: tuple[int, ...]) -> TensorInfo:
        """The tensor behind one parameter of ``network`` (``"llm"`` or ``"visual"``).

        Experts may be stored with their last two axes exchanged, see :func:`is_exchanged`.

        Raises:
            CheckpointError: it is missing, or has another shape or a dtype no network takes.
        """
        info = self.info(self._tensor_name(network, parameter))
        if info.shape != shape and not is_exchanged(info, shape):
            raise CheckpointError(
                f"{self.directory / info.file}: tensor {info.name!r} has shape {list(info.shape)},"
                f" config.json describes {list(shape)}; they belong to different checkpoints"
            )
        if info.dtype not in _WEIGHT_DTYPES:
            raise CheckpointError(
                f"{self.directory / info.file}: tensor {info.name!r} is {info.dtype}; use the"
                " unquantised checkpoint (float32, float16 or bfloat16)"
            )
        return info

    def text_state(self) -> dict[str, Tensor]:
        """Weights by the parameter names of :class:`~edgevlm.models.TextModel`, all views."""
        return self._state("llm", TextModel, self.config.text)

    def vision_state(self) -> dict[str, Tensor]:
        """Weights by the parameter names of :class:`~edgevlm.models.VisionTower`, all views."""
        return self._state("visual", VisionTower, self.config.vision)

    def embedding_table(self) -> Tensor:
        """Token embeddings ``[V,H]``: the very object ``lm_head.weight`` is where they are tied."""
        text = self.config.text
        info = self.weight("llm", _EMBEDDING, (text.vocab_size, text.hidden_size))
        return self.tensor(info.name)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) that tells checkpoints apart in milliseconds, whatever their size.

        Covers ``config.json``, the name, size and header of each weight file, and 64 samples of
        64 KiB spread evenly over each, which is all of a file of up to 4 MiB. Retraining or
        re-saving changes it; an edit of a few bytes between two samples does not, so it guards
        against mix-ups, not against tampering.
        """
        digest = hashlib.sha256((self.directory / "config.json").read_bytes())
        for name, file in sorted(self._files.items()):
            digest.update(f"{name}:{file.size}:".encode() + file.header)
            last = max(file.size - _SAMPLE_BYTES, 0)
            with file.path.open("rb") as stream:
                for index in range(_SAMPLES):
                    stream.seek(last * index // (_SAMPLES - 1))
                    digest.update(stream.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def _state(
        self, network: str, build: Callable[[Config], nn.Module], config: Config
    ) -> dict[str, Tensor]:
        with torch.device("meta"):
            expected = build(config).state_dict()
        return {
            parameter: self._parameter(network, parameter, tuple(meta.shape))
            for parameter, meta in expected.items()
        }

    def _parameter(self, network: str, parameter: str, shape: tuple[int, ...]) -> Tensor:
        info = self.weight(network, parameter, shape)
        tensor = self.tensor(info.name)
        return tensor.transpose(1, 2) if is_exchanged(info, shape) else tensor

    def _tensor_name(self, network: str, parameter: str) -> str:
        if network == "llm" and parameter == "lm_head.weight":
            if not self.config.text.tie_word_embeddings:
                return parameter
            parameter = _EMBEDDING
        name = _PREFIXES[network] + parameter
        bare = name.removeprefix("model.")
        return bare if name not in self.tensors and bare in self.tensors else name

    def _shard_names(self) -> list[str]:
        if (self.directory / _SINGLE).exists():
            return [_SINGLE]
        path = self.directory / _INDEX
        try:
            names = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
            plain = all(Path(name).name == name for name in names)
        except FileNotFoundError:
            raise CheckpointError(
                f"{self.directory}: neither {_SINGLE} nor {_INDEX} is there; download the"
                " checkpoint's safetensors files"
            ) from None
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise CheckpointError(f"{path}: not a safetensors index; download it again") from None
        if not plain:
            raise CheckpointError(f"{path}: a weight file lies outside the checkpoint directory")
        return sorted(names)


def is_exchanged(info: TensorInfo, shape: tuple[int, ...]) -> bool:
    """Whether experts of ``shape [N,A,B]`` are stored as ``[N,B,A]``.

    Published checkpoints have inputs before outputs. Those of models that ``transformers`` 5 made
    itself have outputs first.
    """
    stored = info.shape
    exchanged = len(shape) == 3 and stored == (shape[0], shape[2], shape[1])
    return ".experts." in info.name and exchanged and stored != shape
