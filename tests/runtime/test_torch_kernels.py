"""Each kernel of the fused language model against plain torch, through Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported: kernels run on the CPU

from edgevlm.core import PipelineIO
from edgevlm.models import top_experts
from edgevlm.runtime.engines.kernels import decode_attention, gated_linear, router
from edgevlm.runtime.engines.kernels.decode_attention import attend_cached
from edgevlm.runtime.engines.kernels.prompt import place_prompt
from edgevlm.runtime.engines.kernels.rms_norm import rms_norm
from edgevlm.runtime.engines.kernels.rotary import rotate_and_store
from edgevlm.runtime.engines.kernels.swiglu import swiglu
from edgevlm.runtime.engines.kernels.vector_linear import vector_linear
from edgevlm.runtime.engines.torch_steps import LayerCache, Rows, TorchSteps
from edgevlm.runtime.engines.torch_weights import DenseWeights, LayerWeights

EPS = 1e-6
DTYPES = [torch.float32, torch.float16]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    error = (found.double() - expected.double()).norm() / expected.double().norm()
    assert error < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 16), (3, 60), (2, 5000)])
def test_rms_norm(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, gain = normal(*shape, dtype=dtype), normal(shape[1], seed=1, dtype=dtype)
    expected = F.rms_norm(x.double(), shape[1:], gain.double(), EPS).to(dtype)
    torch.testing.assert_close(rms_norm(x, gain, EPS), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
def test_swiglu(dtype: torch.dtype) -> None:
    gate_up = 3 * normal(2, 2 * 1100, dtype=dtype)
    gate, up = gate_up.double().chunk(2, dim=1)
    torch.testing.assert_close(swiglu(gate_up), (F.silu(gate) * up).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(9, 40), (5, 1100), (5, 3200)])
def test_vector_linear(size: tuple[int, int], dtype: torch.dtype) -> None:
    out, inner = size
    x, weight = normal(1, inner, dtype=dtype), normal(out, inner, seed=1, dtype=dtype)
    gain = normal(inner, seed=2, dtype=dtype)
    normed = F.rms_norm(x.double(), (inner,), gain.double(), EPS)
    plain, after_norm = x.double() @ weight.double().T, normed @ weight.double().T
    assert_near(vector_linear(x, weight), plain, dtype)
    logits = vector_linear(x, weight, gain=gain, eps=EPS, dtype=torch.float32)
    assert logits.dtype == torch.float32
    assert_near(logits, after_norm, dtype)
    total = normal(1, out, seed=3, dtype=dtype)
    expected = total.double() + plain
    assert vector_linear(x, weight, add_to=total) is total
    assert_near(total, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(9, 40), (5, 1100), (5, 3200)])
def test_vector_linear_gated(size: tuple[int, int], dtype: torch.dtype) -> None:
    out, inner = size
    x, gain = normal(1, inner, dtype=dtype), normal(inner, seed=2, dtype=dtype)
    weight = normal(2 * out, inner, seed=1, dtype=dtype) / 4
    normed = F.rms_norm(x.double(), (inner,), gain.double(), EPS)
    gate, up = (normed @ weight.double().T).chunk(2, dim=1)
    found = vector_linear(x, weight, gain=gain, eps=EPS, gated=True)
    assert_near(found, F.silu(gate) * up, dtype)


@pytest.mark.parametrize("size", [(70, 40, 72), (16, 16, 32), (5, 120, 200)])
def test_gated_linear(size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, tile in (("_ROWS", 16), ("_COLUMNS", 16), ("_INNER", 32), ("_GROUP", 2)):
        monkeypatch.setattr(gated_linear, name, tile)
    rows, out, inner = size
    x, weight = normal(rows, inner).half(), normal(2 * out, inner, seed=1).half() / 8
    gate, up = (x.double() @ weight.double().T).chunk(2, dim=1)
    assert_near(gated_linear.gated_linear(x, weight), F.silu(gate) * up, torch.float16)


@pytest.mark.parametrize("planes", [0, 3])
def test_place_prompt(planes: int) -> None:
    length, hidden, rows, capacity = 5, 24, 8, 10
    io = PipelineIO(
        token_ids=torch.arange(length),
        embeds=normal(length, hidden),
        deepstack=normal(planes, length, hidden, seed=1),
        positions=torch.arange(3 * length).view(3, length) + 1,
        spans=(),
        next_position=length,
    )
    embeds, deepstack = torch.ones(capacity, hidden), torch.ones(planes, capacity, hidden)
    positions, numbers = torch.ones(3, capacity, dtype=torch.int64), torch.zeros(2).long()
    place_prompt(2, io, rows, embeds, deepstack, positions, numbers)
    for found, given in (
        (embeds, io.embeds),
        *zip(deepstack, io.deepstack, strict=True),
        (positions.T, io.positions.T),
    ):
        assert torch.equal(found[:length], given)
        assert not found[length:rows].any()
        assert (found[rows:] == 1).all()
    assert numbers.tolist() == [2, length - 1]


def make_cache(width: int, dtype: torch.dtype, kv_heads: int = 2) -> LayerCache:
    """Three slots of 80 places; what is never to be read is NaN."""
    return LayerCache(*(normal(3, kv_heads, 80, width, seed=s, dtype=dtype) for s in (5, 6)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "width"), [(2, 16), (6, 32), (8, 128)])
def test_rotate_and_store(heads: int, width: int, dtype: torch.dtype) -> None:
    qkv = normal(4, (heads + 4) * width, dtype=dtype)
    gains = [normal(width, seed=seed, dtype=dtype) for seed in (1, 2)]
    angles = normal(4, width // 2, seed=3)
    rows = Rows(
        angles.cos().to(dtype),
        angles.sin().to(dtype),
        torch.tensor([0, 2, 2, 1]),
        torch.tensor([7, 0, 79, 3]),
    )
    found, expected = make_cache(width, dtype), make_cache(width, dtype)
    ours, theirs = qkv.clone(), qkv.clone()
    none = torch.empty(0)
    layer = LayerWeights(none, none, *gains, none, none, DenseWeights(none, none))
    TorchSteps(EPS).rotate_and_store(theirs, layer, rows, expected)
    rotate_and_store(
        ours, *gains, rows.cos, rows.sin, rows.slots, rows.places, found.k, found.v, EPS
    )
    assert_near(ours, theirs, dtype)
    assert_near(found.k, expected.k, dtype)
    assert torch.equal(found.v, expected.v)
    assert not torch.equal(ours, qkv)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "width"), [(2, 16), (6, 32), (8, 128)])
@pytest.mark.parametrize(("programs", "few"), [(2, 2), (32, 8)])
def test_attention_over_the_cache(
    heads: int,
    width: int,
    programs: int,
    few: int,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode_attention, "_PROGRAMS", programs)
    monkeypatch.setattr(decode_attention, "_FEW_ROWS", few)
    qkv = normal(4, (heads + 4) * width, dtype=dtype)
    slots, places = torch.tensor([0, 2, 1, 2]), torch.tensor([0, 79, 64, 20])
    cache = make_cache(width, dtype)
    none = torch.empty(0)
    expected = TorchSteps(EPS).attend_cached(qkv, Rows(none, none, slots, places), cache)
    cache.k[0, :, 1:] = cache.v[0, :, 1:] = torch.nan  # beyond what slot 0 has in use
    assert_near(attend_cached(qkv, slots, places, cache.k, cache.v), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "experts", "top_k"), [(1, 128, 8), (5, 16, 4), (3, 60, 3)])
def test_router(rows: int, experts: int, top_k: int, dtype: torch.dtype) -> None:
    logits = normal(rows, experts, dtype=dtype)
    ours, theirs = router.top_experts(logits, top_k), top_experts(logits, top_k)
    torch.testing.assert_close(ours.probabilities, theirs.probabilities)
    torch.testing.assert_close(ours.weights, theirs.weights)
    chosen = [routing.probabilities.gather(1, routing.ids) for routing in (ours, theirs)]
    torch.testing.assert_close(*chosen)  # of equal ones, either may come first
    even = router.top_experts(torch.zeros(2, experts, dtype=dtype), top_k)
    assert even.ids.tolist() == [list(range(top_k))] * 2
