"""What a training run is made of, put together for one device."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from edgevlm.accuracy.tiny.architecture import model_config
from edgevlm.accuracy.tiny.buckets import BUCKETS
from edgevlm.accuracy.tiny.chat import ChatEncoder
from edgevlm.accuracy.tiny.render import RenderTables, render, render_tables
from edgevlm.accuracy.tiny.tokenizer import build_tokenizer
from edgevlm.models import ModelConfig, parse_config

from .layout import Layout, build_layout
from .network import TinyNetwork
from .optimizer import Trainee
from .options import Options
from .step import Engine, compile_blocks, compiled_renderer, prepare_backend


@dataclass(frozen=True)
class Session:
    """Network, optimizer and constant tensors on the training device."""

    device: torch.device
    encoder: ChatEncoder
    config: ModelConfig
    tables: RenderTables
    trainee: Trainee
    engine: Engine
    questions: int

    def layout(self, bucket: str) -> Layout:
        """The static geometry of one bucket."""
        return build_layout(BUCKETS[bucket], self.questions, self.encoder, self.config, self.device)


def tiny_config(model: str = "dense") -> tuple[ChatEncoder, ModelConfig]:
    """The tokenizer's encoder and the architecture that goes with its vocabulary."""
    tokenizer = build_tokenizer()
    encoder = ChatEncoder(tokenizer)
    raw = model_config(tokenizer.get_vocab_size(), encoder.token_id, model)
    return encoder, parse_config(raw)


def build_session(options: Options) -> Session:
    """Create everything with fresh random weights."""
    device = torch.device(options.device)
    if device.type == "cuda":
        prepare_backend()
    torch.manual_seed(options.seed)
    encoder, config = tiny_config(options.model)
    tables = render_tables(device)
    network = TinyNetwork(config).to(device)
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    trainee = Trainee(network, dtype)
    renderer = render
    if options.compile != "off":
        compile_blocks(trainee.compute, dynamic=options.compile == "dynamic")
        renderer = compiled_renderer()
    engine = Engine(trainee, tables, options.precision, options.patches, renderer)
    return Session(device, encoder, config, tables, trainee, engine, options.questions)


class Clock:
    """Wall-clock time since the command started."""

    def __init__(self, started: float) -> None:
        self.started = started

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        """Print one line, with the time, at once."""
        print(f"[{self.now:6.1f}s] {text}", flush=True)
