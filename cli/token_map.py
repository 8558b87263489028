"""Drawing which visual tokens of an image were kept: one panel per pruner, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_SIDE = 480  # of a panel's longer side, where whole pixels per token allow
_CELLS = (8, 48)  # fewest and most pixels along a token
_GAP = 12
_HATCH = 7  # pixels between the lines over dropped tokens
_LINES = 4  # of a caption, at most
_TEXT, _PAPER, _LINE = "black", "white", (150, 150, 150)


@dataclass(frozen=True)
class Panel:
    """One pruner's view of the image.

    ``kept`` are token numbers in raster order over ``grid``, rows by columns of visual tokens.
    """

    image: Image.Image
    grid: tuple[int, int]
    kept: frozenset[int]
    caption: str


def draw_panels(panels: Sequence[Panel], columns: int = 4) -> Image.Image:
    """All panels on one sheet, each at the size of the first."""
    rows, cols = panels[0].grid
    cell = min(max(_SIDE // max(rows, cols), _CELLS[0]), _CELLS[1])
    width, height = cols * cell, rows * cell
    font = ImageFont.load_default(size=14)
    captions = [_wrap(panel.caption, font, width) for panel in panels]
    line = sum(font.getmetrics()) if isinstance(font, ImageFont.FreeTypeFont) else 12
    step_x = width + _GAP
    step_y = height + _GAP + line * max(len(lines) for lines in captions)
    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    sheet = Image.new("RGB", (across * step_x + _GAP, down * step_y + _GAP), _PAPER)
    pen = ImageDraw.Draw(sheet)
    for place, (panel, lines) in enumerate(zip(panels, captions, strict=True)):
        x, y = _GAP + place % across * step_x, _GAP + place // across * step_y
        sheet.paste(_draw(panel, (width, height)), (x, y))
        for number, text in enumerate(lines):
            pen.text((x, y + height + number * line), text, fill=_TEXT, font=font)
    return sheet


def _draw(panel: Panel, size: tuple[int, int]) -> Image.Image:
    """The image with its dropped tokens dimmed and hatched."""
    bright = panel.image.resize(size, Image.Resampling.BICUBIC)
    dim = Image.blend(bright, Image.new("RGB", size), 0.7)
    pen = ImageDraw.Draw(dim)
    width, height = size
    for x in range(-height, width, _HATCH):
        pen.line((x, height, x + height, 0), fill=_LINE)
    rows, columns = panel.grid
    mask = np.zeros(rows * columns, dtype=np.uint8)
    mask[sorted(panel.kept)] = 255
    kept = Image.fromarray(mask.reshape(rows, columns)).resize(size, Image.Resampling.NEAREST)
    return Image.composite(bright, dim, kept)


def _wrap(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` pixels; what exceeds the last line becomes dots."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        lines.append("")
        for word in paragraph.split():
            longer = f"{lines[-1]} {word}".lstrip()
            if lines[-1] and font.getlength(longer) > width:
                lines.append(word)
            else:
                lines[-1] = longer
    if len(lines) > _LINES:
        lines[_LINES - 1 :] = [lines[_LINES - 1] + " ..."]
    return lines
