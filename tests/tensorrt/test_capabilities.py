"""The capability table, and that the documentation says what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgevlm.core import UsageError
from edgevlm.core.capabilities import (
    AHEAD_OF_TIME,
    DEVICES,
    FEATURES,
    MOE_LAYER,
    PLATFORMS,
    TENSORRT,
    TENSORRT_RTX,
    available_features,
    feature,
    format_version,
    parse_capabilities,
    parse_version,
    platform_of,
    require_version,
    supported_capabilities,
)

SUPPORT = Path(__file__).parents[2] / "docs/platforms/README.md"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("89", ("8.9",)), ("89,120", ("8.9", "12.0")), ("8.9, 12.0,89", ("8.9", "12.0"))],
)
def test_sm_lists(text: str, expected: tuple[str, ...]) -> None:
    assert parse_capabilities(text) == expected


@pytest.mark.parametrize("text", ["", "sm89", "9", "1200", "89,,120"])
def test_what_is_not_an_sm_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="write for example --sm 89,120"):
        parse_capabilities(text)


def test_versions() -> None:
    assert parse_version("10.16.1.11") == (10, 16, 1, 11)
    assert parse_version("11.4.0rc1") == (11, 4)
    assert format_version((10, 16)) == "10.16"


def test_moe_layers_are_where_they_are() -> None:
    def has_moe(library: str, version: str, capability: str) -> bool:
        found = available_features(library, parse_version(version), capability)
        return "mixture of experts" in {feature.name for feature in found}

    assert has_moe(TENSORRT, "10.16.0", "11.0")
    assert not has_moe(TENSORRT, "10.15.1", "11.0")
    assert not has_moe(TENSORRT, "10.16.0", "10.3")
    assert has_moe(TENSORRT, "11.4.1", "10.3")
    for capability in ("8.7", "12.0", "12.1"):
        assert not has_moe(TENSORRT, "11.5", capability)
        assert not has_moe(TENSORRT_RTX, "1.7.1", capability)


def test_every_platform_has_what_the_dense_networks_need() -> None:
    needed = {feature.name for feature in FEATURES if feature.kind == "layer"}
    needed -= {"mixture of experts"}
    for platform in PLATFORMS:
        for library, version in platform.libraries.items():
            for capability in platform.capabilities:
                found = {f.name for f in available_features(library, version, capability)}
                assert needed <= found, (platform.name, library)
                require_version(library, format_version(version), capability)


def test_plugins_never_meet_tensorrt_for_rtx() -> None:
    for capability in supported_capabilities(TENSORRT_RTX):
        found = available_features(TENSORRT_RTX, (1, 7, 1), capability)
        assert {feature.kind for feature in found} == {"layer"}


def test_rtx_runs_on_no_jetson_and_no_hopper() -> None:
    assert set(supported_capabilities(TENSORRT_RTX)) == {"8.0", "8.6", "8.9", "12.0", "12.1"}


def test_devices_belong_to_platforms() -> None:
    for device in DEVICES.values():
        platform = platform_of(device.capability)
        assert platform is not None
        assert platform.unified_memory == device.unified


def test_an_old_rtx_is_refused() -> None:
    with pytest.raises(UsageError, match=r"RTX 1.5.0 is too old.*pip install -U tensorrt-rtx"):
        require_version(TENSORRT_RTX, "1.5.0")


def test_the_documented_table_is_this_one() -> None:
    text = SUPPORT.read_text(encoding="utf-8").split("## Mixtures of experts")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    documented = {
        cells[0]: cells for cells in ([c.strip() for c in r.split("|")[1:-1]] for r in rows)
    }
    for platform in PLATFORMS:
        cells = documented[platform.name]
        assert cells[1] == ", ".join(platform.capabilities)
        for column, library in ((2, TENSORRT), (3, TENSORRT_RTX)):
            version = platform.libraries.get(library)
            assert cells[column] == (f"{format_version(version)} or newer" if version else "no")


def test_the_documented_table_of_experts_is_this_one() -> None:
    text = SUPPORT.read_text(encoding="utf-8").split("## Mixtures of experts")[1].split("##")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    documented = {
        cells[0]: cells for cells in ([c.strip() for c in r.split("|")[1:-1]] for r in rows)
    }
    for platform in PLATFORMS:
        version, capability = platform.libraries[TENSORRT], platform.capabilities[0]
        own = feature(MOE_LAYER).available(TENSORRT, version, capability)
        ahead = feature(AHEAD_OF_TIME).available(TENSORRT, version, capability)
        cells = documented[platform.name]
        assert cells[1] == ("own layer" if own else "plugin") and ahead
        assert cells[2] == ("literally" if TENSORRT_RTX in platform.libraries else "")
