"""``MacsCapacity`` as one plugin: a row of launches, most of which change tensors in place.

The torch engine's option to re-route by the likeness of experts needs one more tensor and is not
part of the operator.
"""

from __future__ import annotations

from ...core.launch import power_of_two
from ..macs.config import SETTINGS
from ..macs.kernels.workspace import AGAIN, AHEAD
from ..macs.report import ENTRIES
from .description import Launch, Operator, Port, Statics, Variant, kernel_constant
from .sizes import Size, ceil_divide, size

_KERNELS = "edgevlm.plugins.macs.kernels"
_PAIRS = size("R") * "k"
_ONE = size(1)


def _constant(name: str) -> int:
    return kernel_constant(f"{_KERNELS}.{name}")


def _variant(
    grid: tuple[Size, Size], constants: dict[str, int], warps: int = 4, *, fuse: bool = True
) -> tuple[Variant, ...]:
    options = {"num_warps": warps} | ({} if fuse else {"enable_fp_fusion": False})
    return (Variant((*grid, _ONE), constants, options),)


def _slots(sizes: Statics) -> dict[str, int]:
    return {"TOP_K": sizes["k"], "SLOTS": power_of_two(sizes["k"])}


def _experts(sizes: Statics) -> dict[str, int]:
    return {"EXPERTS": sizes["N"], "WIDTH": power_of_two(sizes["N"])}


def _entropy(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    chunk = min(power_of_two(sizes["H"]), _constant("entropy:_LARGEST_CHUNK"))
    return _variant((size("R"), _ONE), {"SIZE": sizes["H"], "CHUNK": chunk})


def _weights(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    constants = {"ENTRIES": power_of_two(len(ENTRIES)), "CHUNK": _constant("weights:_CHUNK")}
    return _variant((size("R"), _ONE), _slots(sizes) | constants)


def _candidates(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    chunk = _constant("candidates:_CHUNK")
    constants = {"EXPERTS": sizes["N"], **_slots(sizes), "CHUNK": chunk}
    # Products and sums stay apart, so that limits have the very bits of the reference.
    return _variant((size(sizes["N"]), _ONE), constants, 8, fuse=False)


def _admission_ranks(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    grid = (size(sizes["N"]), ceil_divide("R", _constant("ranks:_BLOCK")))
    return _variant(grid, {"EXPERTS": sizes["N"], **_ranks()})


def _admission(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    chunk = _constant("admission:_CHUNK")
    constants = {"EXPERTS": sizes["N"], "TOP_K": sizes["k"], "CHUNK": chunk}
    return _variant((size(sizes["N"]), _ONE), constants, 8)


def _queue_ranks(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    blocks = ceil_divide(size("R") * sizes["k"], _constant("ranks:_BLOCK"))
    return _variant((blocks, _ONE), _ranks())


def _ranks() -> dict[str, int]:
    return {"BLOCK": _constant("ranks:_BLOCK"), "CHUNK": _constant("ranks:_CHUNK")}


def _preferences(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    ahead = {"AHEAD": AHEAD, "AGAIN": AGAIN, "CHUNK": _constant("preferences:_CHUNK")}
    return _variant((size("R"), _ONE), _experts(sizes) | _slots(sizes) | ahead)


def _rerouting(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    ahead = {"HAS_SIMILARITY": False, "AHEAD": AHEAD, "AGAIN": AGAIN}
    return _variant((_ONE, _ONE), _experts(sizes) | ahead, 1)


def _finish(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    block = _constant("finish:_BLOCK")
    grid = (ceil_divide("R", block), _ONE)
    return _variant(grid, _experts(sizes) | _slots(sizes) | {"BLOCK": block})


MACS_CAPACITY = Operator(
    name="MacsCapacity",
    inputs=(
        Port.of("hidden", "T", "R", "H"),
        Port.of("probabilities", "float32", "R", "N"),
        Port.of("expert_ids", "int64", "R", "k"),
        Port.of("expert_weights", "T", "R", "k"),
        Port.of("rows", "bool", "R"),
        Port.of("visual_rows", "bool", "R"),
        Port.of("groups", "float32", "N"),
        Port.of("settings", "float32", len(SETTINGS)),
    ),
    outputs=(
        Port.of("routed_ids", "int64", "R", "k"),
        Port.of("routed_weights", "T", "R", "k"),
        Port.of("report", "float32", len(ENTRIES)),
    ),
    scratch=(
        Port.of("entropy", "float32", "R"),
        Port.of("units", "int32", "R"),
        Port.of("state", "int64", 2),
        Port.of("limits", "int64", "N"),
        Port.of("asked", "int64", 2, "N"),
        Port.of("held", "int64", 2, "N"),
        Port.of("keys", "int64", "N", "R"),
        Port.of("asking", "int32", "N", "R"),
        Port.of("ordered", "int32", "N", "R"),
        Port.of("turned_keys", "int64", _PAIRS),
        Port.of("turned", "int32", _PAIRS),
        Port.of("turns", "int32", _PAIRS),
        Port.of("queue", "int64", _PAIRS + 4 * AHEAD, 2),
        Port.of("targets", "int32", _PAIRS + AHEAD),
        Port.of("preferences", "int32", "R", "N"),
    ),
    launches=(
        Launch(
            name="Entropy",
            kernel=f"{_KERNELS}.entropy:_entropy",
            arguments=("hidden", "rows", "visual_rows", "entropy"),
            writes=("entropy",),
            variants=_entropy,
            uses=("H",),
        ),
        Launch(
            name="Weights",
            kernel=f"{_KERNELS}.weights:_weights",
            arguments=(
                *("entropy", "rows", "visual_rows", "expert_ids", "settings"),
                *("units", "routed_ids", "report", "state"),
                size("R"),
            ),
            writes=("units", "routed_ids", "report", "state"),
            variants=_weights,
            uses=("k",),
        ),
        Launch(
            name="Candidates",
            kernel=f"{_KERNELS}.candidates:_candidates",
            arguments=(
                *("probabilities", "expert_ids", "rows", "visual_rows", "groups", "settings"),
                *("units", "report", "state", "limits", "asked", "keys", "asking"),
                size("R"),
            ),
            writes=("limits", "asked", "keys", "asking"),
            updates=("report", "state"),
            variants=_candidates,
            uses=("N", "k"),
        ),
        Launch(
            name="AdmissionRanks",
            kernel=f"{_KERNELS}.ranks:_admission_ranks",
            arguments=("asked", "keys", "asking", "ordered", size("R")),
            writes=("ordered",),
            variants=_admission_ranks,
            uses=("N",),
        ),
        Launch(
            name="Admission",
            kernel=f"{_KERNELS}.admission:_admission",
            arguments=(
                *("probabilities", "visual_rows", "settings", "units", "state", "limits"),
                *("asked", "held", "ordered", "routed_ids", "turned_keys", "turned"),
                size("R"),
            ),
            writes=("held", "turned_keys", "turned"),
            updates=("state", "routed_ids"),
            variants=_admission,
            uses=("N", "k"),
        ),
        Launch(
            name="QueueRanks",
            kernel=f"{_KERNELS}.ranks:_queue_ranks",
            arguments=("settings", "state", "turned_keys", "turned", "turns"),
            writes=("turns",),
            variants=_queue_ranks,
            uses=("N", "k"),
        ),
        Launch(
            name="Preferences",
            kernel=f"{_KERNELS}.preferences:_preferences",
            arguments=(
                # The second place is for likeness.
                *("probabilities", "probabilities", "expert_ids", "settings", "units", "state"),
                *("routed_ids", "turns", "queue", "preferences"),
                size("R"),
            ),
            writes=("queue", "preferences"),
            variants=_preferences,
            uses=("N", "k"),
        ),
        Launch(
            name="Rerouting",
            kernel=f"{_KERNELS}.rerouting:_rerouting",
            arguments=(
                *("settings", "state", "limits", "held", "queue", "preferences", "targets"),
                size("R"),
            ),
            writes=("targets",),
            updates=("held", "preferences"),
            variants=_rerouting,
            uses=("N",),
        ),
        Launch(
            name="Finish",
            kernel=f"{_KERNELS}.finish:_finish",
            arguments=(
                *("probabilities", "expert_ids", "expert_weights", "visual_rows", "settings"),
                *("limits", "asked", "held", "turns", "targets"),
                *("routed_ids", "routed_weights", "report"),
                size("R"),
            ),
            writes=("routed_weights",),
            updates=("report", "routed_ids"),
            variants=_finish,
            uses=("N", "k"),
        ),
    ),
    sources=(
        *(
            f"{_KERNELS}.{name}"
            for name in (
                *("entropy", "weights", "candidates", "ranks", "admission", "preferences"),
                *("rerouting", "finish", "settings", "workspace"),
            )
        ),
        "edgevlm.plugins.tensorrt.macs",
    ),
)
