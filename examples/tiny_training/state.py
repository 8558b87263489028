"""Saving, resuming and exporting a training run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from edgevlm.accuracy.tiny.checkpoint import read_weights, write_assets, write_weights
from edgevlm.accuracy.tiny.tokenizer import build_tokenizer

from .network import TinyNetwork, from_hugging_face, to_hugging_face
from .optimizer import Trainee

_STATE = "state.pt"
_PROGRESS = "progress.json"


@dataclass(frozen=True)
class Progress:
    """How far a run has come, over all its commands."""

    step: int = 0
    next_chunk: int = 0
    seconds: float = 0.0


def save_state(folder: Path, trainee: Trainee, progress: Progress) -> None:
    """Write ``folder/state.pt``; a run that dies while writing leaves the previous one intact."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "trainee": trainee.state_dict(),
        "progress": asdict(progress),
        "vocabulary": build_tokenizer().get_vocab(),
    }
    temporary = folder / (_STATE + ".tmp")
    torch.save(state, temporary)
    temporary.replace(folder / _STATE)
    (folder / _PROGRESS).write_text(json.dumps(asdict(progress)) + "\n", encoding="utf-8")


def read_progress(folder: Path) -> Progress:
    """How far the run in ``folder`` has come, without touching a device; zero if there is none."""
    path = folder / _PROGRESS
    if not path.exists():
        return Progress()
    return Progress(**json.loads(path.read_text(encoding="utf-8")))


def load_state(folder: Path, trainee: Trainee) -> Progress:
    """Restore what :func:`save_state` wrote, in place."""
    state: dict[str, Any] = torch.load(
        folder / _STATE, map_location=trainee.rate.device, weights_only=True
    )
    if state["vocabulary"] != build_tokenizer().get_vocab():
        raise ValueError(f"{folder / _STATE} was trained with another vocabulary")
    trainee.load_state_dict(state["trainee"])
    return Progress(**state["progress"])


def has_state(folder: Path) -> bool:
    """Whether there is a run to resume."""
    return (folder / _STATE).exists()


def export(folder: Path, network: TinyNetwork, shard_bytes: int | None) -> None:
    """Write a Hugging Face checkpoint, fp16."""
    write_assets(folder, build_tokenizer(), "moe" if network.config.text.moe else "dense")
    write_weights(folder, to_hugging_face(network.state_dict()), shard_bytes=shard_bytes)


def load_exported(folder: Path, trainee: Trainee) -> None:
    """Start from an exported checkpoint's weights; moments and average start anew."""
    state = from_hugging_face(read_weights(folder))
    trainee.load_weights({name: tensor.float() for name, tensor in state.items()})
