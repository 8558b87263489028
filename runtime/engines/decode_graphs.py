"""One captured graph per decode batch size, recorded again when an address changed."""

from __future__ import annotations

from collections.abc import Callable

from .tensorrt_device import Device, Replay


class DecodeGraphs:
    """The first step of a batch size runs as it is, which also settles what the library sets up
    late, and is then captured; later steps replay it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._graphs: dict[int, tuple[tuple[int, ...], Replay]] = {}

    def run(
        self,
        batch: int,
        addresses: tuple[int, ...],
        prepare: Callable[[], None],
        enqueue: Callable[[], None],
    ) -> None:
        """Carry out one step.

        Args:
            addresses: of everything the step touches; a graph holds for these only.
            prepare: sets shapes; called only where the step is not a replay.
            enqueue: puts the step on the device's stream.
        """
        captured = self._graphs.get(batch)
        if captured is not None and captured[0] == addresses:
            captured[1]()
            return
        self._graphs.pop(batch, None)  # frees the outdated graph before the new one is made
        prepare()
        enqueue()
        self._graphs[batch] = (addresses, self._device.capture(enqueue))
