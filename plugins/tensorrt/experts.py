"""``MoeExperts`` as a plugin, or as four in a row: plan, two grouped products, sum."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ...core.launch import power_of_two
from ..experts.kernels.tiling import TILINGS, Tile, Tiling, choose_tiling
from .description import Launch, Operator, Port, Statics, Variant
from .sizes import Size, minimum, size

_KERNELS = "edgevlm.plugins.tensorrt.kernels"
_COMBINE = "edgevlm.plugins.experts.kernels.combine:_combine"
_BLOCK = 512  # columns of a program of the sum
_CHUNKS = (256, 1024, 4096)  # slots that a program of the plan reads at a time
_HEIGHTS = (16, 32, 64, 128)  # of tiles
_TABLES = tuple(f"tiles_{rows}" for rows in _HEIGHTS)
_SLOTS = size("R") * "k"
_SINGLE = choose_tiling(1, 1, torch.float32)
_HALF = tuple(tiling for tiling in TILINGS if tiling != _SINGLE)


def _most_tiles(rows: int, slots: Size, experts: Size) -> Size:
    """How many tiles any routing can need."""
    active = minimum(slots, experts)
    return active + (slots - active) // rows


def _tilings(floating: str) -> tuple[Tiling, ...]:
    return (_SINGLE,) if floating == "float32" else _HALF


def _choose_tiling(sizes: Statics, floating: str) -> int:
    chosen = choose_tiling(sizes["R"] * sizes["k"], sizes["N"], getattr(torch, floating))
    return _tilings(floating).index(chosen)


def _product(
    sizes: Statics, columns: int, rows: int, tile: Tile, constants: Mapping[str, int]
) -> Variant:
    """A grouped product with ``columns`` results a row."""
    slots = size("R") * sizes["k"]
    return Variant(
        (size(-(-columns // tile.columns)), _most_tiles(rows, slots, size(sizes["N"])), size(1)),
        {
            **constants,
            "HIDDEN": sizes["H"],
            "WIDTH": sizes["I"],
            "ROWS": rows,
            "COLUMNS": tile.columns,
            "DEPTH": tile.depth,
        },
        {"num_warps": tile.warps, "num_stages": tile.stages},
    )


def _plan(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    experts = sizes["N"]
    return tuple(
        Variant(
            (size(experts), size(len(_HEIGHTS)), size(1)),
            {"EXPERTS": experts, "BINS": power_of_two(experts), "CHUNK": chunk},
            {"num_warps": 4 if chunk <= 1024 else 8},
        )
        for chunk in _CHUNKS
    )


def _choose_chunk(sizes: Statics, floating: str) -> int:
    slots = sizes["R"] * sizes["k"]
    return next((i for i, chunk in enumerate(_CHUNKS) if slots <= chunk), len(_CHUNKS) - 1)


def _gate_up(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    top_k = {"TOP_K": sizes["k"]}
    return tuple(
        _product(sizes, sizes["I"], tiling.rows, tiling.gate_up, top_k)
        for tiling in _tilings(floating)
    )


def _down(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    return tuple(
        _product(sizes, sizes["H"], tiling.rows, tiling.down, {}) for tiling in _tilings(floating)
    )


def _combine(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    hidden = sizes["H"]
    constants = {"EXPERTS": sizes["N"], "TOP_K": sizes["k"], "SIZE": hidden, "BLOCK": _BLOCK}
    constants |= {"ADD": False, "WEIGH": False, "OVERLAP": False}
    return (Variant((size("R"), size(-(-hidden // _BLOCK)), size(1)), constants, {"num_warps": 4}),)


_ALL = ("H", "I", "N", "k")

MOE_EXPERTS = Operator(
    name="MoeExperts",
    inputs=(
        Port.of("hidden", "T", "R", "H"),
        Port.of("expert_ids", "int64", "R", "k"),
        Port.of("expert_weights", "T", "R", "k"),
        Port.of("gate_up", "T", "N", "H", size("I") * 2),
        Port.of("down", "T", "N", "I", "H"),
    ),
    outputs=(Port.of("out", "T", "R", "H"),),
    scratch=(
        Port.of("order", "int32", _SLOTS),
        *(
            Port.of(table, "int32", _most_tiles(rows, _SLOTS, size("N")), 3)
            for table, rows in zip(_TABLES, _HEIGHTS, strict=True)
        ),
        Port.of("inner", "T", _SLOTS, "I"),
        Port.of("parts", "T", _SLOTS, "H"),
    ),
    launches=(
        Launch(
            name="Plan",
            kernel=f"{_KERNELS}:plan",
            arguments=(
                "expert_ids",
                _SLOTS,
                *(_most_tiles(rows, _SLOTS, size("N")) for rows in _HEIGHTS),
                "order",
                *_TABLES,
            ),
            writes=("order", *_TABLES),
            variants=_plan,
            choose=_choose_chunk,
            uses=("N", "k"),
        ),
        Launch(
            name="GateUp",
            kernel=f"{_KERNELS}:gate_up",
            arguments=("hidden", "gate_up", "order", *_TABLES, "inner"),
            writes=("inner",),
            variants=_gate_up,
            choose=_choose_tiling,
            uses=_ALL,
        ),
        Launch(
            name="Down",
            kernel=f"{_KERNELS}:down",
            arguments=("inner", "down", "expert_weights", "order", *_TABLES, "parts"),
            writes=("parts",),
            variants=_down,
            choose=_choose_tiling,
            uses=_ALL,
        ),
        Launch(
            name="Combine",
            kernel=_COMBINE,
            arguments=("parts", "expert_ids", "expert_weights", "out"),
            writes=("out",),
            variants=_combine,
            uses=("H", "N", "k"),
        ),
    ),
    sources=(
        *(
            f"edgevlm.plugins.experts.kernels.{name}"
            for name in ("plan", "gate_up", "down", "combine", "tiling")
        ),
        _KERNELS,
        "edgevlm.plugins.tensorrt.experts",
    ),
)
