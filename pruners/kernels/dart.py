"""DART's selection as five kernels: norms (made before), pivots, cosines, orders, growth."""

from __future__ import annotations

from torch import Tensor

from ..layout import Layout
from .cosines import pivot_cosines
from .growth import grow
from .orders import pivot_orders
from .pivots import find_pivots


def dart_rows(
    embeds: Tensor,
    l1: Tensor,
    l2: Tensor,
    layout: Layout,
    table: Tensor,
    image_pivots: int,
    text_pivots: int,
) -> Tensor:
    """The kept visual rows ``[k]`` int64, ascending: ``layout.counts[s]`` of span ``s``.

    Computes what ``dart.torch_rows`` does, ties included, without the host waiting for anything.
    The two differ only where two cosines do by less than the rounding of a dot product (fp32, 1e-6
    or so): the terms are added in another order. Equal tokens are no such case: in either path
    their norms and cosines are equal to the bit, and the lower row goes first.

    Once warm it can be captured in a CUDA graph, which is then for this layout.

    Args:
        embeds: ``[T,H]``.
        l1, l2: ``[T]`` fp32, see ``row_norms``.
        table: see ``place_table``.
    """
    embeds = embeds.contiguous()
    pivots = find_pivots(l1, table, layout, image_pivots, text_pivots)
    cosines = pivot_cosines(embeds, l2, table, layout, pivots, image_pivots, text_pivots)
    orders = pivot_orders(cosines, table, layout, image_pivots, text_pivots)
    return grow(orders, table, layout, pivots, image_pivots, text_pivots)
