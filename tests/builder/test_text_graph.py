"""The exported language model in ONNX Runtime against the torch module it was traced from."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from edgevlm.models import TextModel, mrope_cos_sin, rotate_half_split
from tests.builder.conftest import Built
from tests.builder.sessions import TextHost
from tests.models.plain_experts import PlainExperts

BATCH, LENGTH = 3, 14


class CausalOperators(PlainExperts):
    """Causal attention of a whole sequence over itself."""

    rotate = staticmethod(rotate_half_split)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@dataclass
class Prompts:
    """``BATCH`` random sequences and the logits of every prefix of each."""

    embeds: Tensor  # [B,T,H]
    positions: Tensor  # [3,B,T]
    deepstack: list[Tensor]  # each [B,T,H]
    logits: Tensor  # [B,T,V]: row t is that of the prefix of t+1 tokens

    def cut(self, rows: slice | Tensor, columns: slice) -> tuple[Tensor, Tensor, list[Tensor]]:
        planes = [plane[rows, columns] for plane in self.deepstack]
        return self.embeds[rows, columns], self.positions[:, rows, columns], planes

    def cut_each(self, starts: list[int]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Token ``starts[b]`` of each sequence ``b``, as a step of one token."""
        rows, at = torch.arange(BATCH), torch.tensor(starts)
        planes = [plane[rows, at][:, None] for plane in self.deepstack]
        return self.embeds[rows, at][:, None], self.positions[:, rows, at][..., None], planes


@pytest.fixture
def prompts(built: Built) -> Prompts:
    config = built.model.config
    generator = torch.Generator().manual_seed(1)
    shape = (BATCH, LENGTH, config.text.hidden_size)
    embeds, *deepstack = (
        torch.randn(shape, generator=generator) for _ in range(1 + config.num_deepstack)
    )
    # Three different axes, as inside an image, so that a swapped axis shows.
    positions = torch.randint(0, 30, (3, BATCH, LENGTH), generator=generator)
    cos, sin = mrope_cos_sin(positions, config.text, torch.float32)
    model = TextModel(config.text)
    model.load_state_dict(built.model.text_state())
    with torch.inference_mode():
        hidden = model.hidden_states(embeds, cos, sin, deepstack, CausalOperators())
        return Prompts(embeds, positions, deepstack, model.lm_head(hidden))


@pytest.fixture
def host(built: Built) -> TextHost:
    return TextHost(built.engine, BATCH)


def check(found: Tensor, expected: Tensor, built: Built) -> None:
    scale = float(expected.abs().max())
    torch.testing.assert_close(found, expected, atol=built.tolerance * max(scale, 1), rtol=0)


def test_a_prompt_prefills_one_slot_of_a_larger_cache_and_no_other(
    built: Built, host: TextHost, prompts: Prompts
) -> None:
    for cache in host.caches.values():
        cache.fill_(7)
    logits = host.step(*prompts.cut(slice(1, 2), slice(0, 9)), [0], [8], first_slot=1)
    check(logits[0], prompts.logits[1, 8], built)
    for cache in host.caches.values():
        assert (cache[[0, 2]] == 7).all()
        assert (cache[1, :, 9:] == 7).all()
        assert (cache[1, :, :9] != 7).any(-1).all()


def test_decode_continues_slots_of_different_lengths(
    built: Built, host: TextHost, prompts: Prompts
) -> None:
    lengths = [4, 7, 10]
    for slot, length in enumerate(lengths):
        rows = slice(slot, slot + 1)
        host.step(*prompts.cut(rows, slice(0, length)), [0], [length - 1], first_slot=slot)
    for _ in range(3):
        logits = host.step(*prompts.cut_each(lengths), lengths, [0] * BATCH)
        check(logits, prompts.logits[torch.arange(BATCH), torch.tensor(lengths)], built)
        lengths = [length + 1 for length in lengths]


def test_chunks_and_right_padding_change_nothing(
    built: Built, host: TextHost, prompts: Prompts
) -> None:
    for cache in host.caches.values():
        cache.fill_(5)  # what an earlier request left behind
    everything = slice(0, BATCH)
    logits = host.step(*prompts.cut(everything, slice(0, 6)), [0] * BATCH, [5] * BATCH)
    check(logits, prompts.logits[:, 5], built)
    # Sequence b ends after 6 + ends[b] tokens; the rows after that are padding.
    ends = [7, 3, 1]
    last = [end - 1 for end in ends]
    logits = host.step(*prompts.cut(everything, slice(6, 14)), [6] * BATCH, last)
    check(logits, prompts.logits[torch.arange(BATCH), torch.tensor(last) + 6], built)
    # The next token overwrites the padding's slots.
    lengths = [6 + end for end in ends]
    logits = host.step(*prompts.cut_each(lengths), lengths, [0] * BATCH)
    check(logits, prompts.logits[torch.arange(BATCH), torch.tensor(lengths)], built)


def test_the_cache_capacity_changes_nothing(full: Built) -> None:
    embeds = torch.randn(1, 9, full.model.config.text.hidden_size)
    positions = torch.arange(9).expand(3, 1, 9)
    planes = [torch.randn_like(embeds)] * 3
    small, large = (
        TextHost(full.engine, 1, capacity).step(embeds, positions, planes, [0], [8])
        for capacity in (9, 48)
    )
    torch.testing.assert_close(small, large, atol=1e-5, rtol=1e-5)
