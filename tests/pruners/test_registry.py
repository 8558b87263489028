"""Finding pruners by name: built-in, registered by a program, or offered by a package."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch

from edgevlm import pruners
from edgevlm.core import UsageError
from edgevlm.pruners import (
    DartPruner,
    PruneRequest,
    VisualPrunerConfig,
    VisualTokenPruner,
    create_visual_pruner,
    register_visual_pruner,
    visual_pruner_names,
)

from .helpers import make_io

pytestmark = pytest.mark.usefixtures("fresh_registry")


class KeepFirst(VisualTokenPruner):
    def select(self, request: PruneRequest) -> torch.Tensor:
        spans = zip(request.io.spans, request.quotas, strict=True)
        return torch.cat([torch.arange(span.start, span.start + quota) for span, quota in spans])


def create(name: str) -> VisualTokenPruner:
    return create_visual_pruner(VisualPrunerConfig(enabled=True, algorithm=name))


def test_dart_is_built_in() -> None:
    assert "dart" in visual_pruner_names()
    assert isinstance(create("dart"), DartPruner)


def test_the_example_of_the_package_docstring_runs() -> None:
    example = pruners.__doc__.split("::\n")[1].split("A package can")[0]
    names = {**vars(pruners), "torch": torch, "io": make_io(20, [(1, 17)])}
    exec(textwrap.dedent(example), names)
    assert names["report"].kept_positions == tuple(range(1, 13))
    assert "keep-first" in visual_pruner_names()


def test_a_name_is_taken_once() -> None:
    with pytest.raises(UsageError, match="'dart' is registered already; pass replace=True"):
        register_visual_pruner("dart", KeepFirst)
    register_visual_pruner("dart", KeepFirst, replace=True)
    assert isinstance(create("dart"), KeepFirst)


@pytest.mark.parametrize("cls", [KeepFirst(VisualPrunerConfig()), int, None, VisualTokenPruner])
def test_only_complete_pruner_classes_are_registered(cls: object) -> None:
    with pytest.raises(UsageError, match="'bad' must be a subclass of VisualTokenPruner"):
        register_visual_pruner("bad", cls)
    assert "bad" not in visual_pruner_names()


def test_options_must_be_declared_as_a_dataclass() -> None:
    with pytest.raises(UsageError, match="Options must be a dataclass"):
        register_visual_pruner("bad", type("Bad", (KeepFirst,), {"Options": dict}))


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown visual pruner 'drat'; known: .*dart"):
        create("drat")


def test_unknown_option_lists_the_legal_ones() -> None:
    config = VisualPrunerConfig.from_mapping({"reduction_ration": 0.5})
    legal = "pivot_image_tokens, pivot_text_tokens; .*reduction_ratio"
    with pytest.raises(UsageError, match=f"no option 'reduction_ration'; its options: {legal}"):
        create_visual_pruner(config)


def test_a_failing_constructor_is_named() -> None:
    def fail(self: VisualTokenPruner, config: VisualPrunerConfig) -> None:
        raise KeyError("weights")

    register_visual_pruner("broken", type("Broken", (KeepFirst,), {"__init__": fail}))
    with pytest.raises(UsageError, match="'broken' cannot be created: KeyError: 'weights'"):
        create("broken")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed packages: one offers a good pruner and two bad ones, both offer ``twice``."""
    points = {
        "third-party": {
            "from-package": "pruner_of_a_package:Mine",
            "dart": "pruner_of_a_package:Mine",
            "no-module": "module_that_is_not_there:Mine",
            "no-class": "pruner_of_a_package:VALUE",
            "twice": "pruner_of_a_package:Mine",
        },
        "another": {"twice": "pruner_of_a_package:Mine"},
    }
    for package, offered in points.items():
        info = tmp_path / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in offered.items()]
        (info / "entry_points.txt").write_text("\n".join(["[edgevlm.visual_pruners]", *lines]))
    (tmp_path / "pruner_of_a_package.py").write_text(
        "from edgevlm.pruners import VisualTokenPruner\n"
        "VALUE = 1\n"
        "class Mine(VisualTokenPruner):\n"
        "    def select(self, request):\n"
        "        return request.visual_positions[::2]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pruner_of_a_package", raising=False)


@pytest.mark.usefixtures("packages")
def test_a_package_offers_a_pruner() -> None:
    assert {"dart", "from-package", "no-module"} <= set(visual_pruner_names())
    assert "pruner_of_a_package" not in sys.modules  # listing imports nothing
    io = make_io(40, [(0, 16), (17, 33)])
    assert create("from-package").prune(io)[1].pruned_tokens == 16
    assert create("from-package").prune(io)[1].skipped is None


@pytest.mark.usefixtures("packages")
def test_a_built_in_name_is_not_taken_over_by_a_package() -> None:
    assert isinstance(create("dart"), DartPruner)


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no-module",
            r"'no-module' of third-party \(module_that.*\) does not load: Module.*repair",
        ),
        ("no-class", "'no-class' must be a subclass of VisualTokenPruner.*got 1"),
        ("twice", "'twice' is offered more than once, uninstall one: .*another.*"),
    ],
)
def test_a_broken_package_fails_by_name_only(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        create(name)
    assert create("from-package")
