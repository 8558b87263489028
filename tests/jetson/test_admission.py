"""Fair turns, and what memory, heat and power mean for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.jetson.admission.fair_queue import FairQueue
from edgevlm.jetson.admission.memory import MIB, MemoryGuard
from edgevlm.jetson.admission.thermal import ThermalGuard
from edgevlm.jetson.errors import ApiError
from edgevlm.jetson.telemetry.energy import EnergyMeter
from edgevlm.jetson.telemetry.memory import MemoryReading


@given(clients=st.lists(st.sampled_from("abc"), max_size=30))
def test_everyone_gets_a_turn_before_anyone_gets_two(clients: list[str]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue(64, 64)
    for number, client in enumerate(clients):
        queue.put(client, (client, number), 1)
    served = []
    while (entry := queue.pop()) is not None:
        served.append(entry)
    assert sorted(served, key=lambda entry: entry[1]) == list(zip(clients, range(99), strict=False))
    for client in set(clients):
        own = [number for name, number in served if name == client]
        assert own == sorted(own)
    # While a client still waits, nobody is served twice before it.
    remaining = {client: clients.count(client) for client in set(clients)}
    place = 0
    while remaining:
        turn = [name for name, _ in served[place : place + len(remaining)]]
        assert sorted(turn) == sorted(remaining)
        place += len(remaining)
        remaining = {name: count - 1 for name, count in remaining.items() if count > 1}


def test_full_queues_say_whose_fault_it_is() -> None:
    queue: FairQueue[int] = FairQueue(3, 2)
    queue.put("a", 1, 7)
    queue.put("a", 2, 7)
    with pytest.raises(ApiError) as own:
        queue.put("a", 3, 7)
    assert (own.value.status, own.value.retry_after) == (429, 7)
    queue.put("b", 4, 7)
    with pytest.raises(ApiError) as all_full:
        queue.put("c", 5, 7)
    assert all_full.value.status == 503
    assert queue.remove("a", 1) and not queue.remove("a", 1)
    queue.put("c", 5, 7)
    assert [queue.pop(), queue.pop(), queue.pop(), queue.pop()] == [2, 4, 5, None]


def guard(available: int, total: int = 8192, held: int = 0) -> MemoryGuard:
    reading = MemoryReading(total * MIB, available * MIB)
    return MemoryGuard(lambda: reading, lambda: held * MIB, 512 * MIB)


def test_a_request_that_would_make_the_board_swap_is_refused() -> None:
    guard(600).check(MIB, 1000)
    with pytest.raises(ApiError) as refused:
        guard(600).check(MIB, 8_000_000)  # 192 MB of pixels
    assert refused.value.status == 503 and refused.value.code == "low_memory"
    assert "600 MiB are available and 512 MiB must stay free" in refused.value.message


def test_the_kernel_is_not_believed_while_this_service_holds_nearly_everything() -> None:
    assert guard(4000, held=7800).available() == 392 * MIB
    assert guard(4000, held=1000).available() == 4000 * MIB
    MemoryGuard(lambda: None, lambda: 0, 1).check(1 << 40, 1)  # unknown: no opinion


def test_heat_leaves_one_slot_until_it_is_clearly_cooler() -> None:
    thermal = ThermalGuard(85.0)
    slots = []
    for degrees in (84.9, 85.0, 82.0, None, 79.9):
        thermal.observe(degrees)
        slots.append(thermal.slots(4))
    assert slots == [4, 1, 1, 1, 4]
    never = ThermalGuard(None)
    never.observe(200.0)
    assert never.slots(4) == 4


def test_requests_share_the_energy_of_the_time_they_spend_together() -> None:
    meter = EnergyMeter()
    assert meter.share(0.0, 0) is None
    meter.observe(10.0, 0.0, 0)
    first = meter.share(1.0, 0)
    second = meter.share(3.0, 1)  # alone for two seconds
    end = meter.share(5.0, 2)  # then two together
    assert first is not None and second is not None and end is not None
    assert end - first == pytest.approx(10 * 2 + 10 * 2 / 2)
    assert end - second == pytest.approx(10 * 2 / 2)
    assert meter.total_j == pytest.approx(50.0)
    meter.observe(20.0, 4.0, 1)  # a clock that went backwards adds nothing
    assert meter.total_j == pytest.approx(50.0)
