"""``SereRouting`` as a plugin: one launch."""

from __future__ import annotations

from ...core.launch import power_of_two
from .description import Launch, Operator, Port, Statics, Variant, kernel_constant
from .sizes import ceil_divide, size

_KERNEL = "edgevlm.plugins.sere.kernel"
_ROWS = (32, 64, 128)  # whose votes a program reads at a time


def _variants(sizes: Statics, floating: str) -> tuple[Variant, ...]:
    experts, top_k = sizes["N"], sizes["k"]
    tile, slots, counted, least, few = (
        kernel_constant(f"{_KERNEL}:_{name}")
        for name in ("TILE", "SLOTS", "COUNTED", "LEAST_WIDTH", "FEW_ROWS")
    )
    width = power_of_two(max(experts, least))
    tiles = -(-experts // tile)
    grid = (ceil_divide(size("R") * top_k, slots) * tiles + 1, size(1), size(1))
    return tuple(
        Variant(
            grid,
            {
                "K": top_k,
                "EXPERTS": experts,
                "WIDTH": width,
                "TILE": tile,
                "SLOTS": slots,
                "ROWS": rows,
                "COUNTED": min(width, counted // width),
            },
            {"num_warps": 4 if rows <= few else 8},
        )
        for rows in _ROWS
    )


def _choose(sizes: Statics, floating: str) -> int:
    return next((i for i, rows in enumerate(_ROWS) if sizes["R"] <= rows), len(_ROWS) - 1)


SERE_ROUTING = Operator(
    name="SereRouting",
    inputs=(
        Port.of("expert_ids", "int64", "R", "k"),
        Port.of("similarity", "float32", "N", "N"),
        Port.of("protected", "bool", "N"),
        Port.of("decode_rows", "bool", "R"),
        Port.of("top_k", "int64", 1),
        Port.of("threshold", "float32", 1),
    ),
    outputs=(Port.of("routed_ids", "int64", "R", "k"), Port.of("active", "int64", 2)),
    launches=(
        Launch(
            name="",
            kernel="edgevlm.plugins.tensorrt.kernels:sere_routing",
            arguments=(
                "expert_ids",
                "similarity",
                "protected",
                "decode_rows",
                "top_k",
                "threshold",
                size("R"),
                "routed_ids",
                "active",
            ),
            writes=("routed_ids", "active"),
            variants=_variants,
            choose=_choose,
            uses=("N", "k"),
        ),
    ),
    types=(),
    sources=(
        _KERNEL,
        "edgevlm.plugins.tensorrt.kernels",
        "edgevlm.plugins.tensorrt.sere",
    ),
)
