"""Names are found, unknown and taken ones are errors that help."""

from __future__ import annotations

import pytest

from edgevlm.core import Registry, UsageError


@pytest.fixture
def registry() -> Registry[int]:
    registry: Registry[int] = Registry("number")
    registry.register("two")(2)
    registry.register("one")(1)
    return registry


def test_entries_are_found_and_listed_in_order(registry: Registry[int]) -> None:
    assert registry.get("one") == 1
    assert registry.names() == ["one", "two"]
    assert "two" in registry and "three" not in registry


def test_an_unknown_name_lists_the_known_ones(registry: Registry[int]) -> None:
    with pytest.raises(UsageError, match="unknown number 'three'; known: one, two"):
        registry.get("three")
    with pytest.raises(UsageError, match="known: none"):
        Registry[int]("number").get("one")


def test_a_taken_name_is_replaced_only_on_request(registry: Registry[int]) -> None:
    with pytest.raises(UsageError, match="replace=True"):
        registry.register("one")(3)
    registry.register("one", replace=True)(3)
    assert registry.get("one") == 3


@pytest.mark.parametrize("name", ["", " one", "one "])
def test_names_are_not_empty_or_padded(registry: Registry[int], name: str) -> None:
    with pytest.raises(UsageError, match="non-empty name"):
        registry.register(name)
