"""What each platform, TensorRT version and GPU generation can do: one table, read by all.

``build``, ``doctor``, ``estimate``, error messages and the documentation look things up here; no
other file compares a version. Compute capabilities are written ``"8.9"``; versions are tuples.

Sources: the TensorRT 10.16 and 11.4 release notes and Jetson migration guide, the pages on fused
attention, KV cache and MoE layers, and the TensorRT for RTX 1.7 support matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import UsageError

Version = tuple[int, ...]

TENSORRT, TENSORRT_RTX = "tensorrt", "tensorrt-rtx"
TITLES = {TENSORRT: "TensorRT", TENSORRT_RTX: "TensorRT for RTX"}

# The first version of each library with every layer the dense networks need. What was missing
# before: lower-right causal attention (10.16), cache updates (10.15), rotary embedding (10.15.1).
MINIMUM: dict[str, Version] = {TENSORRT: (10, 16), TENSORRT_RTX: (1, 6)}

# Fused attention has no float32 kernel.
TENSORRT_DTYPES = ("float16", "bfloat16")

# Which JetPack brings which TensorRT, oldest first: (first version, last version, JetPack).
JETPACKS: tuple[tuple[Version, Version, str], ...] = (
    ((10, 3), (10, 12), "6.1 or 6.2"),
    ((10, 13), (10, 15), "7.0 or 7.1"),
    ((10, 16), (10, 99), "7.2"),
    ((11, 4), (11, 99), "7.2.2"),
)
NEEDED_JETPACK = "7.2"


@dataclass(frozen=True)
class Platform:
    """One row of the support table. ``libraries`` maps each usable one to its first version."""

    name: str
    capabilities: tuple[str, ...]
    libraries: dict[str, Version]
    unified_memory: bool
    notes: str


PLATFORMS = (
    Platform(
        "Jetson Thor",
        ("11.0",),
        {TENSORRT: (10, 16)},
        True,
        "JetPack 7.2 or newer; MoE through TensorRT's own layer",
    ),
    Platform(
        "Jetson Orin",
        ("8.7",),
        {TENSORRT: (10, 16, 1)},
        True,
        "JetPack 7.2 or newer; MoE through the expert plugin",
    ),
    Platform(
        "DGX Spark",
        ("12.1",),
        {TENSORRT: (10, 16), TENSORRT_RTX: (1, 6)},
        True,
        "both libraries",
    ),
    Platform(
        "x86 Blackwell",
        ("12.0",),
        {TENSORRT: (10, 16), TENSORRT_RTX: (1, 6)},
        False,
        "both libraries",
    ),
    Platform(
        "x86 Ada",
        ("8.9",),
        {TENSORRT: (10, 16), TENSORRT_RTX: (1, 6)},
        False,
        "both libraries",
    ),
    Platform(
        "x86 Ampere",
        ("8.0", "8.6"),
        {TENSORRT: (10, 16), TENSORRT_RTX: (1, 6)},
        False,
        "both libraries",
    ),
    Platform(
        "Hopper",
        ("9.0",),
        {TENSORRT: (10, 16)},
        False,
        "torch where TensorRT is absent; TensorRT for RTX refuses this GPU",
    ),
)


@dataclass(frozen=True)
class BoardMemory:
    """One product. ``memory`` is what its system reports, in bytes, a little below the label."""

    title: str
    capability: str
    memory: int
    unified: bool


_GiB = 2**30
DEVICES = {
    "thor": BoardMemory("Jetson AGX Thor", "11.0", 122 * _GiB, True),
    "orin-agx-64": BoardMemory("Jetson AGX Orin 64 GB", "8.7", 61 * _GiB, True),
    "orin-nx-16": BoardMemory("Jetson Orin NX 16 GB", "8.7", 15 * _GiB, True),
    "orin-nano-8": BoardMemory("Jetson Orin Nano 8 GB", "8.7", 7 * _GiB, True),
    "spark": BoardMemory("DGX Spark", "12.1", 119 * _GiB, True),
    "rtx-5090": BoardMemory("GeForce RTX 5090", "12.0", 31 * _GiB, False),
}


@dataclass(frozen=True)
class Rule:
    """A feature is there from version ``since`` of ``library``, on some GPUs or on all (empty)."""

    library: str
    since: Version
    capabilities: tuple[str, ...] = ()

    def holds(self, library: str, version: Version, capability: str) -> bool:
        usable = not self.capabilities or capability in self.capabilities
        return usable and library == self.library and version >= self.since


@dataclass(frozen=True)
class Feature:
    """``kind`` is ``"layer"`` or ``"plugin style"``; one of the rules must hold."""

    name: str
    kind: str
    rules: tuple[Rule, ...]

    def available(self, library: str, version: Version, capability: str) -> bool:
        return any(rule.holds(library, version, capability) for rule in self.rules)


MOE_LAYER = "mixture of experts"
CLASS_STYLE, AHEAD_OF_TIME = "class (IPluginV3)", "ahead of time"


def _both(since: Version) -> tuple[Rule, ...]:
    return Rule(TENSORRT, since), Rule(TENSORRT_RTX, MINIMUM[TENSORRT_RTX])


FEATURES = (
    Feature("fused attention with key lengths", "layer", _both((10, 16))),
    Feature("rotary embedding", "layer", _both((10, 15, 1))),
    Feature("KV cache update", "layer", _both((10, 15))),
    Feature(
        MOE_LAYER,
        "layer",
        (
            Rule(TENSORRT, (10, 16), ("11.0",)),
            Rule(TENSORRT, (11, 0), ("10.0", "10.3", "11.0")),
        ),
    ),
    Feature(CLASS_STYLE, "plugin style", (Rule(TENSORRT, (10, 0)),)),
    Feature("decorator", "plugin style", (Rule(TENSORRT, (10, 7)),)),
    Feature(AHEAD_OF_TIME, "plugin style", (Rule(TENSORRT, (10, 9)),)),
)


def feature(name: str) -> Feature:
    """The row of that name."""
    return next(found for found in FEATURES if found.name == name)


def parse_version(text: str) -> Version:
    """``"10.16.1.11"`` to numbers; anything from the first non-number on is left out."""
    numbers: list[int] = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def parse_capabilities(text: str) -> tuple[str, ...]:
    """``"89,120"`` (or ``"8.9,12.0"``) to ``("8.9", "12.0")``.

    Raises:
        UsageError: an entry is not a compute capability.
    """
    found = []
    for item in text.split(","):
        digits = item.strip().replace(".", "")
        if not digits.isdecimal() or not 2 <= len(digits) <= 3:
            raise UsageError(f"--sm {text!r}: {item!r} is not an SM; write for example --sm 89,120")
        found.append(f"{digits[:-1]}.{digits[-1]}")
    return tuple(dict.fromkeys(found))


def format_version(version: Version) -> str:
    """``(10, 16)`` to ``"10.16"``."""
    return ".".join(map(str, version))


def platform_of(capability: str) -> Platform | None:
    """The row whose GPUs have this compute capability."""
    return next((p for p in PLATFORMS if capability in p.capabilities), None)


def supported_capabilities(library: str) -> tuple[str, ...]:
    """Every compute capability that ``library`` runs our engines on."""
    return tuple(c for p in PLATFORMS if library in p.libraries for c in p.capabilities)


def available_features(library: str, version: Version, capability: str) -> Iterator[Feature]:
    """The features of one library at one version on one GPU."""
    return (f for f in FEATURES if f.available(library, version, capability))


def require_version(library: str, text: str, capability: str | None = None) -> None:
    """Check that a library's version has every layer the networks need.

    Args:
        capability: the GPU, where it is known: some arrived later than others.

    Raises:
        UsageError: it is older; the message names what it is, what is needed and how to get it.
    """
    platform = platform_of(capability) if capability else None
    needed = platform.libraries.get(library) if platform else None
    needed = needed or MINIMUM[library]
    version = parse_version(text)
    if version >= needed:
        return
    title, remedy = TITLES[library], f"upgrade it: pip install -U {library}"
    if library == TENSORRT:
        jetpack = next((jp for lo, hi, jp in JETPACKS if lo <= version[:2] <= hi), None)
        title += f" {text}" + (f" (that of JetPack {jetpack})" if jetpack else "")
        remedy = f"on a Jetson install JetPack {NEEDED_JETPACK} or newer, elsewhere {remedy}"
    else:
        title += f" {text}"
    raise UsageError(
        f"{title} is too old: fused attention over a KV cache needs {format_version(needed)}"
        f" or newer; {remedy}"
    )
