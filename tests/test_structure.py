"""Rules about the source tree itself."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "accuracy",
    "benchmarks",
    "builder",
    "cli",
    "core",
    "jetson",
    "models",
    "plugins",
    "pruners",
    "runtime",
)
MAX_LINES = 400


def python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert files
    return files


def test_no_source_file_is_longer_than_the_limit() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files(*PACKAGES, "examples", "tests")
    }
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files(*PACKAGES, "examples")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_packaging_names_every_package_folder() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(configuration["tool"]["setuptools"]["packages"])
    found = {
        "edgevlm." + ".".join(path.parent.relative_to(ROOT).parts)
        for path in python_files(*PACKAGES)
    }
    assert listed == found


@pytest.mark.parametrize("heavy", ["transformers", "onnxscript", "matplotlib"])
def test_the_runtime_never_imports(heavy: str) -> None:
    for path in python_files("core", "models", "pruners", "runtime"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            assert not any(name.split(".")[0] == heavy for name in names), path
