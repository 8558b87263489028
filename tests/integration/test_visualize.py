"""``edgevlm visualize``: kept tokens bright, dropped ones not, one panel per pruner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgevlm.cli.main import main
from edgevlm.cli.token_map import Panel, draw_panels
from edgevlm.runtime import ChatRequest, ImagePart, Message, Runtime, SamplingParams, TextPart

from .conftest import ROOT

IMAGE = ROOT / "examples/images/colour-w384.png"
GAP, CELL = 12, 40  # of a sheet, and of an image of 8 x 12 tokens


def tokens(sheet: Image.Image, panel: int, grid: tuple[int, int]) -> np.ndarray:
    """Mean brightness of each token of a panel in the first row of the sheet."""
    rows, columns = grid
    left = GAP + panel * (columns * CELL + GAP)
    box = (left, GAP, left + columns * CELL, GAP + rows * CELL)
    pixels = np.asarray(sheet.crop(box).convert("L"), dtype=float)
    return pixels.reshape(rows, CELL, columns, CELL).mean(axis=(1, 3))


def test_panels_of_the_command(engines: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "map.png"
    words = ["visualize", "--engine", engines["torch"], "--image", IMAGE, "--ratio", "0.5"]
    words += ["--algorithm", "stride", "holov", "downsample", "--device", "cpu", "-o", output]
    assert (
        main([str(word) for word in [*words, "--question", "Which colour is at the centre?"]]) == 0
    )
    with Image.open(output) as sheet:
        full, *pruned = (tokens(sheet, panel, (8, 12)) for panel in range(4))
        size = sheet.size
    assert size[0] == GAP + 4 * (12 * CELL + GAP)
    dropped = [int((np.abs(panel - full) > 1).sum()) for panel in pruned[:2]]
    assert dropped == [48, 48]
    assert not (np.abs(pruned[0] - full)[:, 1::2] > 1).any()  # stride keeps every other column


def test_an_automatic_ratio(
    engines: dict[str, Path], runtimes: dict[str, Runtime], tmp_path: Path
) -> None:
    output = tmp_path / "map.png"
    words = ["visualize", "--engine", engines["torch"], "--image", IMAGE, "--ratio", "auto"]
    words += ["--algorithm", "stride", "--device", "cpu", "-o", output]
    assert main([str(word) for word in words]) == 0
    with Image.open(output) as sheet:
        full, pruned = (tokens(sheet, panel, (8, 12)) for panel in range(2))
    request = ChatRequest(
        (Message("user", (ImagePart(IMAGE), TextPart("Describe the image."))),),
        SamplingParams(max_tokens=1),
        visual_pruning={"algorithm": "stride", "reduction_ratio": "auto"},
    )
    report = runtimes["torch"].generate([request])[0].report
    assert report is not None
    dropped = report.visual_tokens_before - report.visual_tokens_after
    assert int((np.abs(pruned - full) > 1).sum()) == dropped > 0


def test_a_ratio_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(f"visualize --engine {tmp_path} --image x --ratio much -o map.png".split())
    assert "--ratio: must be a number or auto, got 'much'" in capsys.readouterr().err


def test_a_panel_shows_the_kept_tokens_as_they_are() -> None:
    white = Image.new("RGB", (64, 64), "white")
    panel = Panel(white, (2, 2), frozenset({0, 3}), "a\n" + "word " * 60)
    sheet = draw_panels([panel] * 5, columns=3)
    edge = 48
    assert sheet.size[0] == GAP + 3 * (2 * edge + GAP)
    inside = [
        sheet.getpixel((GAP + 20 + x * edge, GAP + 20 + y * edge)) for y, x in np.ndindex(2, 2)
    ]
    assert inside[0] == inside[3] == (255, 255, 255)
    assert max(map(max, inside[1:3])) < 160  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--algorithm", "nope"], 2, "unknown visual pruner 'nope'; known: dart"),
        (["--algorithm", "downsample", "--ratio", "auto"], 2, "reduction_ratio must be a number"),
        (["--ratio", "2"], 2, "reduction_ratio must be a number strictly between 0 and 1"),
        (["--image", "gone.png"], 1, "gone.png: cannot be read"),
        (["-o", "no/such/map.png"], 2, "--output no/such/map.png: the folder does not exist"),
    ],
)
def test_what_is_wrong_is_one_line(
    engines: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    message: str,
) -> None:
    given = ["--engine", engines["torch"], "--image", IMAGE, "-o", tmp_path / "map.png"]
    assert main(["visualize", *(str(word) for word in given), *words]) == status
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
