"""The growing KV cache keeps every row that counts, whatever its capacity does."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import EngineLimits
from edgevlm.runtime.engines.kv_cache import GrowingKVCache
from tests.models.random_model import make_random_model

CONFIG = make_random_model().config.text
MOST = 1500


def new_cache(batch: int = 3) -> GrowingKVCache:
    limits = EngineLimits(max_input_len=1200, max_kv_len=MOST, max_batch=batch)
    return GrowingKVCache(CONFIG, limits, torch.float32)


def test_capacity_follows_the_longest_sequence() -> None:
    cache = new_cache()
    assert cache.capacity == 256
    cache.admit(0, 256)
    assert cache.capacity == 256
    cache.extend((256,))
    assert cache.capacity == 512
    cache.admit(1, 1025)
    assert cache.capacity == MOST
    # Slot 1 ends, and a short prompt finds the cache more than four times too large.
    cache.extend((257,))
    assert cache.capacity == MOST
    cache.admit(1, 20)
    assert cache.capacity == 512


def test_slots_are_contiguous_views_of_one_memory() -> None:
    cache = new_cache()
    one = cache.slots(1, 2)["k_cache_0"]
    assert one.is_contiguous() and one.shape == (1, CONFIG.num_kv_heads, 256, CONFIG.head_dim)
    one.fill_(7)
    assert bool((cache.slots(0, 3)["k_cache_0"][1] == 7).all())


actions = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(1, 1200)),
        st.tuples(st.just("decode"), st.integers(1, 300)),
        st.tuples(st.just("retire"), st.integers(0, 2)),
    ),
    max_size=12,
)


@given(actions)
@settings(max_examples=25, deadline=None)
def test_rows_survive_growing_shrinking_and_moving(steps: list[tuple[str, int]]) -> None:
    """Each sequence writes rows of its own number; all must still be there at every step."""
    cache = new_cache()
    active: list[tuple[int, int]] = []  # (number, length), one per slot from 0
    for number, (action, amount) in enumerate(steps, start=1):
        if action == "admit" and len(active) < 3:
            slot = len(active)
            cache.admit(slot, amount)
            cache.slots(slot, slot + 1)["k_cache_1"][:, :, :amount] = number
            active.append((number, amount))
        elif action == "decode" and active:
            for _ in range(min(amount, MOST - max(length for _, length in active))):
                cache.extend(tuple(length for _, length in active))
                for slot, (owner, length) in enumerate(active):
                    cache.slots(slot, slot + 1)["k_cache_1"][:, :, length] = owner
                    active[slot] = (owner, length + 1)
        elif action == "retire" and amount < len(active):
            last = active.pop()
            if amount < len(active):
                cache.move(len(active), amount, last[1])
                active[amount] = last
        for slot, (owner, length) in enumerate(active):
            rows = cache.slots(slot, slot + 1)["k_cache_1"][:, :, :length]
            assert rows.shape[2] == length
            assert bool((rows == owner).all())
        whole = cache.slots(0, 3)["k_cache_1"]
        assert bool(whole.isfinite().all())
