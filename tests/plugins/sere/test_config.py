"""Settings: what is legal, and strength that grows."""

from __future__ import annotations

import itertools
import math

import pytest

from edgevlm.core import UsageError
from edgevlm.plugins.sere import Ramp, SereConfig, default_protected


def test_an_eighth_is_protected_by_default() -> None:
    assert [default_protected(n) for n in (128, 16, 60, 4, 1)] == [16, 2, 8, 1, 1]
    assert SereConfig().protected_count(128) == 16
    assert SereConfig(protect=0).protected_count(128) == 0
    with pytest.raises(UsageError, match="no more than the 8 experts of a layer, got 9"):
        SereConfig(protect=9).protected_count(8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k must be an integer from 1 on, got 0"),
        ({"top_k": True}, "top_k must be"),
        ({"threshold": math.nan}, "threshold must be a number from 0 to 1, got nan"),
        ({"threshold": 1.1}, "threshold must be"),
        ({"threshold": "0.5"}, "threshold must be"),
        ({"protect": -1}, "protect must be an integer from 0 on, or none for an eighth"),
        ({"protect_by": "luck"}, "one of least-replaceable, routed-mass, union, got 'luck'"),
        ({"merge_duplicates": 1}, "merge_duplicates must be true or false"),
        ({"least_top_k": 3, "ramp_steps": "0:9"}, "least_top_k must be an integer from 1 to top_k"),
        ({"least_threshold": 0.6, "ramp_steps": "0:9"}, "a number from 0 to threshold, 0.5"),
        ({"least_top_k": 1}, "ramp_steps or ramp_batch goes with"),
        ({"ramp_batch": [1, 2]}, "ramp_steps or ramp_batch goes with"),
        ({"least_top_k": 1, "ramp_steps": "9:9"}, "0 <= start < end"),
        ({"least_top_k": 1, "ramp_steps": [0, 1.5]}, "0 <= start < end"),
        ({"least_top_k": 1, "ramp_steps": "a:b"}, "START:END"),
        ({"least_top_k": 1, "ramp_steps": 7}, "START:END"),
        ({"K": 2}, "settings must be an object of top_k, threshold"),
        ([], "settings must be an object"),
    ],
)
def test_what_is_wrong_is_named(settings, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SereConfig.from_mapping(settings)


def test_strength_is_constant_unless_asked() -> None:
    config = SereConfig.from_mapping({"top_k": 3, "threshold": 0.25, "protect": 4})
    assert {config.at(batch, step) for batch in (1, 500) for step in (0, 9000)} == {(3, 0.25)}


def test_strength_grows_with_the_answer_within_its_bounds() -> None:
    config = SereConfig.from_mapping(
        {"top_k": 4, "ramp_steps": "100:200", "least_top_k": 1, "least_threshold": 0.1}
    )
    assert config.at(1, 0) == config.at(1, 100) == (4, 0.5)
    assert config.at(1, 150) == (3, pytest.approx(0.3))  # of 2.5, rounded up
    assert config.at(1, 200) == config.at(1, 10**9) == (1, pytest.approx(0.1))
    strengths = [config.at(1, step) for step in range(90, 210)]
    for one, other in itertools.pairwise(strengths):
        assert one[0] >= other[0] and one[1] >= other[1]


def test_of_two_ramps_the_further_one_counts() -> None:
    config = SereConfig(2, 0.5, ramp_steps=Ramp(0, 100), ramp_batch=Ramp(8, 16), least_threshold=0)
    assert config.at(batch=8, step=50) == (2, 0.25)
    assert config.at(batch=16, step=50) == (2, 0)
    assert config.at(batch=12, step=75) == (2, 0.125)
