"""Engine limits refuse what no engine could honour."""

from __future__ import annotations

import pytest

from edgevlm.core import UsageError
from edgevlm.core.limits import EngineLimits


def test_the_defaults_take_a_megapixel_image() -> None:
    limits = EngineLimits()
    assert limits.max_image_tokens * 32 * 32 >= 10**6
    assert limits.max_image_tokens < limits.max_input_len < limits.max_kv_len


@pytest.mark.parametrize("name", vars(EngineLimits()))
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8"])
def test_each_limit_is_a_positive_integer(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name} is {value!r}; it must be an integer of at least"):
        EngineLimits(**{name: value})  # type: ignore[arg-type]


def test_a_prompt_must_fit_the_cache() -> None:
    EngineLimits(max_input_len=4096, max_kv_len=4096)
    with pytest.raises(UsageError, match="max_input_len is 4097 but max_kv_len is 4096"):
        EngineLimits(max_input_len=4097, max_kv_len=4096)
