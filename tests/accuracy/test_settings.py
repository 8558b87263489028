"""Settings and what they are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgevlm.accuracy.evaluation import (
    Setting,
    crossed,
    parse_ratio,
    pruning_settings,
    read_settings,
)
from edgevlm.accuracy.evaluation.setting import distinct
from edgevlm.core import UsageError


def test_every_algorithm_at_every_ratio_and_the_unpruned_once() -> None:
    found = pruning_settings(["dart", "stride"], [0.0, 0.25, 0.5])
    assert [setting.name for setting in found] == [
        "unpruned",
        "dart 0.25",
        "dart 0.5",
        "stride 0.25",
        "stride 0.5",
    ]
    assert found[2].pruning == {"algorithm": "dart", "reduction_ratio": 0.5}
    assert [(s.series, s.ratio) for s in found[:2]] == [("unpruned", 0.0), ("dart", 0.25)]


def test_settings_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps(
            [
                {
                    "name": "one pivot 0.5",
                    "pruning": {"reduction_ratio": 0.5, "pivot_image_tokens": 1},
                },
                {"name": "as it is"},
                {"name": "routed", "routing": {"macs": {}}},
            ]
        )
    )
    one, plain, routed = read_settings(path)
    assert (one.series, one.ratio) == ("one pivot", 0.5)
    assert plain.pruning is None and plain.ratio == 0.0
    assert routed.routing == {"macs": {}}
    assert Setting("default", {"algorithm": "dart"}).ratio == 0.25


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "settings.json: not JSON"),
        ("{}", "settings.json: settings: must be a list"),
        ('[{"pruning": {}}]', r'settings.json: settings\[0\]: "name" is missing'),
        ('[{"name": " x"}]', "a setting needs a name"),
        ('[{"name": "x", "pruning": {"algorithm": "nope"}}]', "setting 'x': unknown visual pruner"),
        ('[{"name": "x", "pruning": {"reduction_ratio": 2.0}}]', "setting 'x': .*reduction_ratio"),
    ],
)
def test_bad_settings_are_refused_before_any_work(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        read_settings(path)


def test_one_name_means_one_setting() -> None:
    half, other = Setting("x", {"reduction_ratio": 0.5}), Setting("x")
    assert distinct([half, half]) == [half]
    with pytest.raises(UsageError, match="two settings are called 'x'"):
        distinct([half, other])


def test_ratios_are_numbers_below_one_or_words() -> None:
    assert parse_ratio("0.25") == 0.25 and parse_ratio("auto") == "auto"
    for text in ("1", "-0.1", "nan"):
        with pytest.raises(UsageError, match="a ratio is a number from 0 to below 1"):
            parse_ratio(text)


def test_routings_are_crossed_with_prunings(tmp_path: Path) -> None:
    file = tmp_path / "calibration.safetensors"
    file.write_bytes(b"1")
    sere = Setting("sere", routing={"sere": {"top_k": 1}, "sere_file": str(file)})
    found = crossed(pruning_settings(["dart"], [0.0, 0.5]), [sere])
    assert [setting.name for setting in found] == [
        "unpruned",
        "dart 0.5",
        "sere unpruned",
        "sere dart 0.5",
    ]
    assert found[3].series == "sere dart" and found[3].routing == sere.routing
    assert found[3].expert_routing().sere_file == file
    # What is written down names the file and what is in it, not where it is.
    before = sere.definition
    assert '"sere_file": "calibration.safetensors ' in before and str(tmp_path) not in before
    file.write_bytes(b"2")
    assert sere.definition != before
    for settings, routings in (([sere], [sere]), ([], [found[1]])):
        with pytest.raises(UsageError, match=r"'(sere|dart 0\.5)'"):
            crossed(settings, routings)
    with pytest.raises(UsageError, match="setting 'x': expert routing is an object of sere, macs"):
        Setting("x", routing={"any": 1})
