"""The kernels together against fp64, through Triton's interpreter, which knows no bf16 product."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.plugins.experts import grouped
from edgevlm.plugins.experts.kernels import experts
from edgevlm.plugins.experts.kernels.combine import combine
from edgevlm.plugins.experts.kernels.experts import kernel_experts
from edgevlm.plugins.experts.kernels.tiling import TILINGS, Tiling, choose_tiling

from ..cases import Shape, assert_near, expected, make

DTYPES = [torch.float32, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1),
        Shape(3, experts=6, top_k=6),
        Shape(70, experts=3, hidden=40, width=36),  # several tiles per expert
        Shape(4, experts=16, top_k=4, hidden=256, width=96),  # the bundled checkpoint's
        Shape(2, experts=1, top_k=1, hidden=33, width=17),
    ],
    ids=str,
)
def test_shapes(shape: Shape, dtype: torch.dtype) -> None:
    inputs = make(shape, dtype)
    assert_near(kernel_experts(*inputs), expected(*inputs))


@settings(max_examples=15, deadline=None)
@given(
    shape=st.builds(
        Shape,
        rows=st.integers(1, 20),
        experts=st.integers(1, 9),
        top_k=st.integers(1, 5),
        hidden=st.integers(1, 50),
        width=st.integers(1, 40),
    ),
    seed=st.integers(0, 1000),
    drops=st.sampled_from([0.0, 0.3, 1.0]),
    dtype=st.sampled_from(DTYPES),
)
def test_any_routing(shape: Shape, seed: int, drops: float, dtype: torch.dtype) -> None:
    inputs = make(shape, dtype, seed, drops, distinct=False)
    assert_near(kernel_experts(*inputs), expected(*inputs))


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_every_tiling(tiling: Tiling) -> None:
    inputs = make(Shape(150, experts=2, top_k=1, hidden=80, width=72), torch.float16)
    inputs[1][:] = torch.arange(150)[:, None] // 140  # 140 rows of one expert, 10 of the other
    assert_near(kernel_experts(*inputs, tiling=tiling), expected(*inputs))


def test_dropped_slots_stay_out_whatever_they_hold() -> None:
    inputs = make(Shape(6), torch.float32)
    inputs[1][2:4, 0] = 5
    inputs[1][4] = 5
    inputs[2][inputs[1] == 5] = float("nan")
    found = kernel_experts(*inputs)
    assert found[4].tolist() == [0.0] * 24
    assert_near(found, expected(*inputs))


def test_rows_not_a_number_do_not_spread() -> None:
    inputs = make(Shape(5), torch.float32)
    clean = kernel_experts(*inputs)
    inputs[0][2] = float("nan")
    found = kernel_experts(*inputs)
    assert found[2].isnan().all()
    others = torch.tensor([0, 1, 3, 4])
    assert torch.equal(found[others], clean[others])


def test_ids_of_four_bytes() -> None:
    hidden, ids, weights, gate_up, down = make(Shape(7), torch.float32, drops=0.2)
    found = kernel_experts(hidden, ids.int(), weights, gate_up, down)
    assert torch.equal(found, kernel_experts(hidden, ids, weights, gate_up, down))


def test_the_same_expert_twice_adds_both_weights() -> None:
    hidden, ids, weights, gate_up, down = make(Shape(4), torch.float32)
    ids[:, 1] = ids[:, 0]
    twice = kernel_experts(hidden, ids, weights, gate_up, down)
    once = kernel_experts(
        hidden, ids[:, :1].contiguous(), weights.sum(1, keepdim=True), gate_up, down
    )
    torch.testing.assert_close(twice, once)


def test_adding_in_place() -> None:
    inputs = make(Shape(6), torch.float32, drops=0.2)
    x = torch.randn(6, 24)
    before = x.clone()
    found = kernel_experts(*inputs, add_to=x)
    assert found.data_ptr() == x.data_ptr()
    torch.testing.assert_close(x, before + kernel_experts(*inputs))


def test_weights_when_adding_up() -> None:
    ids = torch.tensor([[0, 2], [1, 3], [3, 3]])  # of three experts
    weights, parts = torch.rand(3, 2), torch.randn(6, 24)
    parts[3:] = float("nan")  # of dropped slots
    found = combine(parts, ids, 3, weights=weights)
    wanted = torch.stack(
        (
            parts[0] * weights[0, 0] + parts[1] * weights[0, 1],
            parts[2] * weights[1, 0],
            parts[0] * 0,
        )
    )
    torch.testing.assert_close(found, wanted)


def test_tiles_follow_the_experts_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def product(*given: object) -> None:
        seen.append(given[5].rows)  # type: ignore[attr-defined]

    monkeypatch.setattr(grouped, "usable", lambda tensor: True)
    monkeypatch.setattr(experts, "kernel_experts", product)
    inputs = make(Shape(64), torch.float16)
    for active in (None, 1):
        grouped.grouped_experts(*inputs, active)
    assert seen[0] < seen[1]


def test_tiles_grow_with_the_rows_per_expert() -> None:
    rows = [choose_tiling(8 * batch, 128, torch.bfloat16).rows for batch in (1, 64, 512, 2048)]
    assert rows == sorted(rows)
    assert len(set(rows)) > 2


def test_tiles_fit_every_gpu() -> None:
    least = 99 * 1024  # of shared memory for a program: compute capabilities 8.6, 8.9 and 12.x
    for tiling in TILINGS:
        itemsize = 4 if tiling == choose_tiling(1, 1, torch.float32) else 2
        assert tiling.shared_bytes(itemsize) <= least
