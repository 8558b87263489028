"""Attention importance: golden vector, the materialised attention, and what must always hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.pruners import attention_importance as module
from edgevlm.pruners.attention_importance import (
    Segments,
    attention_importance,
    merged_importance,
)

GOLDEN = [0.874428, 1.174762, 1.044163, 0.906647, 0.860263, 0.984482, 0.730076, 1.425180]


def golden() -> tuple[Tensor, Tensor]:
    """Two heads over eight patches ``[8,2,3]``; the second has half the queries of the first."""
    i, j = torch.arange(8)[:, None], torch.arange(3)
    q = ((5 * i + 2 * j + 2 * i * j + 1) % 7 - 3).float()
    k = ((3 * i + 4 * j + 2 * i * j + 1) % 7 - 3).float()
    return torch.stack((0.5 * q, 0.25 * q), dim=1), torch.stack((k, k), dim=1)


def materialised(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """The same for one segment ``[n,H,D]``, by the matrix, in fp64."""
    scores = torch.einsum("ihd,phd->hip", q.double(), k.double()) * scale
    return scores.softmax(dim=-1).sum(dim=1).mean(dim=0).float()


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, *shape, generator=generator)
    return 2 * q.to(dtype), k.to(dtype)


def test_golden_vector() -> None:
    found = attention_importance(*golden(), cu_seqlens=(0, 4, 8))
    torch.testing.assert_close(found, torch.tensor(GOLDEN), atol=1e-6, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 10**6))
def test_segments_are_independent_and_add_up_to_their_lengths(lengths, seed) -> None:
    q, k = random(sum(lengths), 3, 16, seed=seed)
    borders = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    found = attention_importance(q, k, cu_seqlens=borders)
    for start, end in pairwise(borders):
        expected = materialised(q[start:end], k[start:end], 0.25)
        torch.testing.assert_close(found[start:end], expected)
        assert found[start:end].sum().item() == pytest.approx(end - start, abs=1e-3)


def test_a_padded_batch_is_its_segments() -> None:
    q, k = random(3, 2, 20, 16)
    found = attention_importance(q, k, lengths=(20, 1, 7))
    for row, length in enumerate((20, 1, 7)):
        mine = [x[row, :, :length].transpose(0, 1) for x in (q, k)]
        torch.testing.assert_close(found[row, :length], materialised(*mine, 0.25))
        assert not found[row, length:].any()
    assert torch.equal(attention_importance(q, k), attention_importance(q, k, lengths=[20] * 3))


@pytest.mark.parametrize("packed", [False, True])
def test_a_given_lse_is_used(packed: bool) -> None:
    q, k = random(12, 2, 16)
    borders = (0, 5, 12)
    lse = torch.cat(
        [
            (torch.einsum("ihd,phd->hip", q[a:b], k[a:b]) / 4).logsumexp(-1)
            for a, b in ((0, 5), (5, 12))
        ],
        dim=1,
    )  # [H,total]
    plain = attention_importance(q, k, cu_seqlens=borders)
    if packed:
        found = attention_importance(q, k, cu_seqlens=borders, lse=lse)
        half = attention_importance(q, k, cu_seqlens=borders, lse=lse + torch.tensor(2.0).log())
    else:
        q, k = (x[5:].transpose(0, 1)[None] for x in (q, k))
        plain, lse = plain[None, 5:], lse[None, :, 5:]
        found = attention_importance(q, k, lse=lse)
        half = attention_importance(q, k, lse=lse + torch.tensor(2.0).log())
    torch.testing.assert_close(found, plain)
    torch.testing.assert_close(2 * half, plain)


def test_the_order_of_queries_does_not_matter() -> None:
    q, k = random(1, 2, 30, 16)
    lse = (q @ k.mT / 4).logsumexp(-1)
    shuffled = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    found = attention_importance(q[:, :, shuffled], k, lse=lse[:, :, shuffled])
    torch.testing.assert_close(found, attention_importance(q, k, lse=lse))


def test_few_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k = random(1, 2, 30, 16)
    whole = attention_importance(q, k)
    monkeypatch.setattr(module, "_CHUNK", 2 * 30 * 7)
    torch.testing.assert_close(attention_importance(q, k), whole)


def test_through_the_kernels(kernels_everywhere: None) -> None:
    q, k = random(30, 2, 16, dtype=torch.float16)
    found = attention_importance(q, k, cu_seqlens=(0, 0, 19, 30))
    for start, end in ((0, 19), (19, 30)):
        expected = materialised(q[start:end], k[start:end], 0.25)
        torch.testing.assert_close(found[start:end], expected, atol=1e-5, rtol=1e-4)
    nothing = attention_importance(q[:0], k[:0], cu_seqlens=(0,))
    assert nothing.shape == (0,)


def test_merged_tokens_sum_four_patches() -> None:
    patches = torch.arange(16.0).view(2, 8)
    assert merged_importance(patches).tolist() == [[6, 22], [38, 54]]
    assert merged_importance(patches[0], 2).tolist() == [1, 5, 9, 13]


@pytest.mark.parametrize(
    ("q", "k", "options", "message"),
    [
        ((2, 3, 8, 16), (2, 3, 9, 16), {}, "q and k differ"),
        ((8, 3, 16), (8, 3, 16), {}, r"expected q \[S,H,N,D\] with lengths, or q \[total"),
        ((2, 3, 8, 16), (2, 3, 8, 16), {"cu_seqlens": (0, 8)}, "expected q"),
        ((8, 3, 16), (8, 3, 16), {"cu_seqlens": (0, 8), "lengths": (8,)}, "expected q"),
        ((8, 3, 16), (8, 3, 16), {"cu_seqlens": (0, 5)}, "must ascend from 0 to 8"),
        ((8, 3, 16), (8, 3, 16), {"cu_seqlens": (0, 6, 5, 8)}, "must ascend"),
        ((8, 3, 16), (8, 3, 16), {"cu_seqlens": ()}, "must ascend"),
        ((2, 3, 8, 16), (2, 3, 8, 16), {"lengths": (8,)}, "expected 2 lengths of 0 to 8"),
        ((2, 3, 8, 16), (2, 3, 8, 16), {"lengths": (8, 9)}, "expected 2 lengths"),
        ((2, 3, 8, 16), (2, 3, 8, 16), {"lse": torch.zeros(3, 16)}, r"shape \(2, 3, 8\)"),
    ],
)
def test_shapes_must_fit(q, k, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        attention_importance(torch.zeros(q), torch.zeros(k), **options)


def test_packed_and_padded_are_seen_head_by_head() -> None:
    q, k = golden()
    packed = Segments(q, k, cu_seqlens=(0, 3, 3, 8))
    assert packed.bounds == [(0, 0, 3), (0, 3, 5)]
    assert torch.equal(packed.by_head(q)[0, 1], q[:, 1])
    batch = q[None].transpose(1, 2).expand(3, 2, 8, 3)
    assert Segments(batch, batch, lengths=(8, 0, 2)).bounds == [(0, 0, 8), (2, 0, 2)]
