"""Pruner settings: validation, and laying a request's object over the runtime's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from edgevlm.core import UsageError
from edgevlm.pruners import VisualPrunerConfig


def test_defaults() -> None:
    config = VisualPrunerConfig()
    assert (config.enabled, config.algorithm, config.reduction_ratio) == (False, "dart", 0.25)
    assert (config.min_visual_tokens, config.options) == (16, {})
    assert hash(config) == hash(VisualPrunerConfig())


def test_options_are_a_copy() -> None:
    options = {"pivot_image_tokens": 4}
    config = VisualPrunerConfig(options=options)
    options["pivot_image_tokens"] = 5
    assert config.options == {"pivot_image_tokens": 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reduction_ratio": 0.0}, "reduction_ratio must be .* strictly between 0 and 1"),
        ({"reduction_ratio": 1.0}, "reduction_ratio"),
        ({"reduction_ratio": 1}, "reduction_ratio"),
        ({"reduction_ratio": float("nan")}, "reduction_ratio.*got nan"),
        ({"reduction_ratio": True}, "reduction_ratio.*got True"),
        ({"reduction_ratio": "0.5"}, """reduction_ratio.* or "auto", got '0.5'"""),
        ({"auto_min": 0.5}, r"auto_min and auto_max must be .*, got \(0.5, 0.5\)"),
        ({"auto_min": -0.1}, "0 <= auto_min < auto_max < 1"),
        ({"auto_max": 1.0}, "0 <= auto_min < auto_max < 1"),
        ({"auto_max": float("nan")}, "auto_max"),
        ({"auto_max": "0.5"}, "auto_max"),
        ({"auto_min": False}, "auto_min"),
        ({"enabled": 1}, "enabled must be true or false, got 1"),
        ({"algorithm": ""}, "algorithm must be the name of a visual pruner, got ''"),
        ({"algorithm": None}, "algorithm"),
        ({"min_visual_tokens": -1}, "min_visual_tokens must be an integer >= 0, got -1"),
        ({"min_visual_tokens": True}, "min_visual_tokens"),
        ({"min_visual_tokens": 2.0}, "min_visual_tokens"),
        ({"some": float("inf")}, "option 'some' must be a finite number.*got inf"),
        ({"some": None}, "option 'some'"),
        ({"options": {"pivot_image_tokens": 4}}, "option 'options'.*beside 'algorithm'"),
    ],
)
def test_illegal_values(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        VisualPrunerConfig.from_mapping(settings)


def test_options_must_be_a_mapping() -> None:
    with pytest.raises(UsageError, match="options must be a mapping"):
        VisualPrunerConfig(options=[("pivot_image_tokens", 4)])


@pytest.mark.parametrize("raw", [None, [], "dart", True, {1: 2}])
def test_not_an_object(raw: Any) -> None:
    with pytest.raises(
        UsageError, match="must be an object of enabled, algorithm, reduction_ratio"
    ):
        VisualPrunerConfig.from_mapping(raw)


def test_unknown_keys_are_options() -> None:
    raw = {"algorithm": "dart", "reduction_ratio": 0.5, "pivot_image_tokens": 4}
    assert VisualPrunerConfig.from_mapping(raw) == VisualPrunerConfig(
        enabled=True, reduction_ratio=0.5, options={"pivot_image_tokens": 4}
    )


DEFAULT = VisualPrunerConfig(True, "dart", 0.4, 8, {"pivot_image_tokens": 2})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, DEFAULT),
        (
            {"enabled": False},
            VisualPrunerConfig(False, "dart", 0.4, 8, {"pivot_image_tokens": 2}),
        ),
        (
            {"pivot_text_tokens": 1},
            VisualPrunerConfig(
                True, "dart", 0.4, 8, {"pivot_image_tokens": 2, "pivot_text_tokens": 1}
            ),
        ),
        (
            {"algorithm": "dart", "pivot_image_tokens": 3, "min_visual_tokens": 0},
            VisualPrunerConfig(True, "dart", 0.4, 0, {"pivot_image_tokens": 3}),
        ),
        ({"algorithm": "stride"}, VisualPrunerConfig(True, "stride", 0.4, 8, {})),
    ],
)
def test_a_request_overrides_the_default(raw: dict[str, Any], expected: VisualPrunerConfig) -> None:
    assert VisualPrunerConfig.from_mapping(raw, DEFAULT) == expected


def test_auto() -> None:
    raw = {"reduction_ratio": "auto", "auto_min": 0, "auto_max": 0.25}
    config = VisualPrunerConfig.from_mapping(raw, DEFAULT)
    assert (config.adapts, config.largest_ratio) == (True, 0.25)
    assert config.options == DEFAULT.options and config.quota(100) == 75
    # The bounds stay where a request gives a ratio of its own.
    fixed = VisualPrunerConfig.from_mapping({"reduction_ratio": 0.4}, config)
    assert (fixed.adapts, fixed.largest_ratio, fixed.auto_max) == (False, 0.4, 0.25)


def test_setting_anything_turns_pruning_on_unless_it_says_off() -> None:
    off = VisualPrunerConfig()
    assert not VisualPrunerConfig.from_mapping({}, off).enabled
    assert VisualPrunerConfig.from_mapping({"reduction_ratio": 0.5}, off).enabled
    raw = {"reduction_ratio": 0.5, "enabled": False}
    assert not VisualPrunerConfig.from_mapping(raw, DEFAULT).enabled
