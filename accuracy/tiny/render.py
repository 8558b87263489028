"""The renderer: packed scenes to pixels, vectorised over a batch, the same on CPU and GPU.

Every pixel belongs to one cell, so it evaluates one sprite (a shape or one glyph of a text) and one
plate, whatever the number of cells: cost depends on pixels alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from . import packing as p
from .atlas import GLYPH_ASPECT, TILE, sprite_atlas
from .lexicon import PALETTE
from .scenes import CELL_PLATE, HUG_PLATE, MAX_TEXT

_NOISE_SIDE = 256
_MAX_NOISE = 9.0  # levels of 255, standard deviation
_MAX_TURN = 0.21  # radians
_MIN_SIZE, _SIZE_RANGE = 0.25, 0.58  # of the shorter cell side
_TEXT_SIZE = 0.78  # a text's height over that of a shape of equal scale
_TABLE_TEXT_SIZE = 1.0
_FIT = 0.93  # of the cell a text and its plate may span
_HUG_MARGIN = 0.16  # of the text height, each side
_OUTLINE = 0.035  # of the shape's size
_OUTLINE_SHADE = 0.66


@dataclass(frozen=True)
class RenderTables:
    """Constant lookup tables on one device.

    Attributes:
        atlas: ``[tiles*TILE*TILE]`` fp32 signed distances.
        palette: ``[colours,3]`` fp32, 0-255.
        noise: ``[_NOISE_SIDE,_NOISE_SIDE]`` fp32, unit variance.
    """

    atlas: Tensor
    palette: Tensor
    noise: Tensor


def render_tables(device: torch.device | str = "cpu") -> RenderTables:
    """Build the lookup tables; a fraction of a second, once per process."""
    noise = np.random.default_rng(2024).standard_normal((_NOISE_SIDE, _NOISE_SIDE))
    return RenderTables(
        atlas=torch.from_numpy(sprite_atlas()).flatten().to(device),
        palette=torch.tensor(PALETTE, dtype=torch.float32, device=device),
        noise=torch.from_numpy(noise.astype(np.float32)).to(device),
    )


def render(heads: Tensor, cells: Tensor, height: int, width: int, tables: RenderTables) -> Tensor:
    """Draw a batch of scenes.

    Args:
        heads: ``[B,HEAD_FIELDS]`` uint8.
        cells: ``[B,slots,CELL_FIELDS]`` uint8.
        height, width: pixels of every image.

    Returns:
        ``[B,height,width,3]`` uint8.
    """
    device = heads.device
    batch, slots = cells.shape[:2]
    head = heads.float()  # [B,HEAD_FIELDS]
    columns, rows = head[:, p.COLUMNS, None, None], head[:, p.ROWS, None, None]  # [B,1,1]
    cell_w, cell_h = width / columns, height / rows
    x = (torch.arange(width, device=device) + 0.5).view(1, 1, -1)
    y = (torch.arange(height, device=device) + 0.5).view(1, -1, 1)
    column = torch.minimum((x / cell_w).floor(), columns - 1)  # [B,1,W]
    row = torch.minimum((y / cell_h).floor(), rows - 1)  # [B,H,1]
    from_x = x - (column + 0.5) * cell_w  # [B,1,W] pixels from the cell's centre
    from_y = y - (row + 0.5) * cell_h  # [B,H,1]
    first_slot = torch.arange(batch, device=device).view(-1, 1, 1) * slots
    slot = (first_slot + row * columns + column).long()  # [B,H,W]

    look = _cell_parameters(cells, cell_w.view(-1, 1), cell_h.view(-1, 1), tables)
    tiles = cells[..., :MAX_TEXT].flatten().to(torch.int32)  # [B*slots*MAX_TEXT]

    def pick(name: str) -> Tensor:
        return look[name].flatten()[slot]  # [B,H,W]

    # Into the frame of the item: turned, with its height as the unit.
    dx, dy = from_x - pick("dx"), from_y - pick("dy")
    cos, sin, size = pick("cos"), pick("sin"), pick("size")
    along = (dx * cos + dy * sin) / size
    down = (dy * cos - dx * sin) / size
    count, aspect = pick("count"), pick("aspect")
    place = along / aspect + count * 0.5
    which = torch.minimum(place.floor().clamp(min=0), count - 1).clamp(min=0)
    tile = tiles[slot * MAX_TEXT + which.long()]
    across = place - which
    # Beyond the tile the lookup clamps; the way to the tile is added, or edges would smear.
    beyond = ((across - 0.5).abs() - 0.5).clamp(min=0) * aspect + (down.abs() - 0.5).clamp(min=0)
    distance = (_sample(tables.atlas, tile, across, down + 0.5) + beyond) * size  # pixels

    ink = (0.5 - distance).clamp(0, 1) * (tile > 0)
    core = (0.5 - distance - pick("outline")).clamp(0, 1)
    shade = pick("shade") * (_OUTLINE_SHADE + (1 - _OUTLINE_SHADE) * core)
    # A hugging plate turns with its text; a table cell's plate fills the cell.
    fills = pick("fills") > 0
    plate = _rounded_box(
        torch.where(fills, from_x, along * size),
        torch.where(fills, from_y, down * size),
        pick("plate_w"),
        pick("plate_h"),
        torch.where(fills, 3.0, 0.22 * size),
    )
    line = torch.maximum(
        (1.0 - (cell_w * 0.5 - from_x.abs())).clamp(0, 1),
        (1.0 - (cell_h * 0.5 - from_y.abs())).clamp(0, 1),
    ) * (head[:, p.LINES, None, None] / 255)

    grain = tables.noise[
        ((y - 0.5).long() + heads[:, p.NOISE_Y, None, None].long()) % _NOISE_SIDE,
        ((x - 0.5).long() + heads[:, p.NOISE_X, None, None].long()) % _NOISE_SIDE,
    ] * (head[:, p.NOISE, None, None] * (_MAX_NOISE / 255))  # [B,H,W]
    fall = 1.02 - 0.06 * (y / height)  # light from above

    background = tables.palette[heads[:, p.BACKGROUND].long()]  # [B,3]
    planes = []
    for channel in range(3):
        base = background[:, channel, None, None]
        value = base * fall + (128 - base) * line
        value = value + (pick(f"plate{channel}") - value) * plate
        value = value + (pick(f"ink{channel}") * shade - value) * ink
        planes.append((value + grain).round().clamp(0, 255))
    return torch.stack(planes, dim=-1).to(torch.uint8)


def _cell_parameters(
    cells: Tensor, cell_w: Tensor, cell_h: Tensor, tables: RenderTables
) -> dict[str, Tensor]:
    """What a pixel needs of its cell, each ``[B,slots]`` fp32; lengths in pixels.

    Args:
        cells: ``[B,slots,CELL_FIELDS]`` uint8.
        cell_w, cell_h: ``[B,1]`` pixels.
    """
    field = cells.float().unbind(-1)
    count = field[p.COUNT]
    is_shape = (cells[..., 0] >= p.FIRST_SHAPE) & (cells[..., 0] < p.FIRST_GLYPH)
    hugs, fills = field[p.PLATE] == HUG_PLATE, field[p.PLATE] == CELL_PLATE
    side = torch.minimum(cell_w, cell_h)
    aspect = torch.where(is_shape, 1.0, GLYPH_ASPECT)
    margin = torch.where(hugs, _HUG_MARGIN, 0.0)
    text = torch.where(fills, _TABLE_TEXT_SIZE, _TEXT_SIZE)
    size = (_MIN_SIZE + _SIZE_RANGE * field[p.SCALE] / 255) * side
    size = size * torch.where(is_shape, 1.0, text)
    size = torch.minimum(size, _FIT * cell_w / (count * aspect + 2 * margin).clamp(min=0.1))
    turn = torch.where(fills, 0.0, (field[p.ANGLE] - 128) / 128 * _MAX_TURN)
    # A long text may turn less, or its ends would leave the cell.
    turn = turn * torch.where(is_shape, 1.0, 1.0 / count.clamp(min=1))
    span_w = size * (count * aspect + 2 * margin) + size * turn.abs()
    span_h = size * (1 + 2 * margin) + size * count * aspect * turn.abs()
    free_w = ((cell_w - span_w) * 0.5 - 1).clamp(min=0)
    free_h = ((cell_h - span_h) * 0.5 - 1).clamp(min=0)
    hug_w, hug_h = size * (count * aspect * 0.5 + margin), size * (0.5 + margin * 0.3)
    has_plate = hugs | fills
    look = {
        "count": count,
        "aspect": aspect,
        "size": size,
        "cos": turn.cos(),
        "sin": turn.sin(),
        "dx": (field[p.DX] - 128) / 128 * free_w,
        "dy": (field[p.DY] - 128) / 128 * free_h,
        "outline": torch.where(is_shape, (_OUTLINE * size).clamp(min=1.2), 0.0),
        "shade": 1 + (field[p.SHADE] - 128) / 128 * 0.08,
        "fills": fills.float(),
        # Without a plate, a box of negative size covers nothing.
        "plate_w": torch.where(has_plate, torch.where(fills, cell_w * 0.5 - 1, hug_w), -9.0),
        "plate_h": torch.where(has_plate, torch.where(fills, cell_h * 0.5 - 1, hug_h), -9.0),
    }
    ink = tables.palette[cells[..., p.COLOUR].long()]  # [B,slots,3]
    plate = tables.palette[cells[..., p.PLATE_COLOUR].long()]
    for channel in range(3):
        look[f"ink{channel}"] = ink[..., channel]
        look[f"plate{channel}"] = plate[..., channel]
    return look


def _sample(atlas: Tensor, tile: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Bilinear lookup of ``tile`` at ``x, y`` in 0..1 (clamped outside), all ``[B,H,W]``."""
    x, y = (x * TILE - 0.5).clamp(0, TILE - 1.001), (y * TILE - 0.5).clamp(0, TILE - 1.001)
    left, top = x.floor(), y.floor()
    fx, fy = x - left, y - top
    index = (tile * TILE + top.to(torch.int32)) * TILE + left.to(torch.int32)
    above = atlas[index] * (1 - fx) + atlas[index + 1] * fx
    below = atlas[index + TILE] * (1 - fx) + atlas[index + TILE + 1] * fx
    return above * (1 - fy) + below * fy


def _rounded_box(x: Tensor, y: Tensor, half_w: Tensor, half_h: Tensor, radius: Tensor) -> Tensor:
    """Coverage ``[B,H,W]`` of a rounded rectangle centred at the origin; lengths in pixels."""
    qx, qy = x.abs() - half_w + radius, y.abs() - half_h + radius
    outside = (qx.clamp(min=0).square() + qy.clamp(min=0).square()).sqrt()
    inside = torch.maximum(qx, qy).clamp(max=0)
    return (0.5 - (outside + inside - radius)).clamp(0, 1)
