"""Tables."""

from __future__ import annotations

from edgevlm.benchmarks.report import table


def test_table() -> None:
    rows = [{"what": "a", "ms": 1.23456, "mb": None}, {"what": "longer", "ms": 20, "mb": 0.5}]
    assert table(rows).splitlines() == [
        "what      ms   mb",
        "a       1.23    -",
        "longer    20  0.5",
    ]
