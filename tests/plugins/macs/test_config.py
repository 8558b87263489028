"""Settings: what is legal, and the tensor they become."""

from __future__ import annotations

import pytest
import torch

from edgevlm.core import UsageError
from edgevlm.plugins.macs import SETTINGS, MacsConfig, require_onnx


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "mac"}, "method must be one of off, macs, token_drop, expanded_drop"),
        ({"capacity_factor": 0}, "capacity_factor must be a number in 0.001"),
        ({"capacity_factor": float("nan")}, "capacity_factor"),
        ({"gain": 2.5}, "gain must be a number in 0..2"),
        ({"devices": 2.0}, "devices must be an integer in 1..4096"),
        ({"devices": 2, "device": 2}, "device must be below devices"),
        ({"reroute": 1}, "reroute must be true or false"),
        ({"group_threshold": 0.6}, "group_threshold must be a number in 0..0.5"),
    ],
)
def test_what_is_illegal_is_named(options, message) -> None:
    with pytest.raises(UsageError, match=message):
        MacsConfig(**options)


def test_settings_tensor() -> None:
    values = MacsConfig(capacity_factor=1.5, order="text_first", devices=4, device=3).settings()
    named = dict(zip(SETTINGS, values.tolist(), strict=True))
    assert named["capacity_factor"] == 1.5 and named["order"] == 2
    assert named["devices"] == 4 and named["device"] == 3 and named["method"] == 1
    assert values.dtype == torch.float32


def test_token_drop_has_none_of_the_ideas() -> None:
    config = MacsConfig(method="token_drop", gain=1.0, order="text_first", token_limit=1.0)
    named = dict(zip(SETTINGS, config.settings().tolist(), strict=True))
    ideas = ("gain", "reroute", "keep_top1_text", "order", "minimum_capacity", "token_limit")
    assert [named[name] for name in ideas] == [0.0] * len(ideas)


def test_json() -> None:
    assert not MacsConfig.from_mapping({}).enabled
    assert MacsConfig.from_mapping({"gain": 1}).method == "macs"
    base = MacsConfig(method="token_drop", capacity_factor=2.0)
    assert MacsConfig.from_mapping({"renormalize": True}, base).capacity_factor == 2.0
    assert MacsConfig.from_mapping({"method": "off"}, base).method == "off"
    with pytest.raises(UsageError, match="no option 'gamma'"):
        MacsConfig.from_mapping({"gamma": 1})
    with pytest.raises(UsageError, match="must be an object"):
        MacsConfig.from_mapping([1])  # type: ignore[arg-type]


def test_what_engines_lack_is_refused() -> None:
    require_onnx(MacsConfig())
    for config in (MacsConfig(method="expanded_drop"), MacsConfig(similarity="expert")):
        with pytest.raises(UsageError, match="torch backend only"):
            require_onnx(config)
