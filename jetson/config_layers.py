"""Where settings come from: defaults < configuration file < environment < flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..core import UsageError
from .config import ServiceConfig

PREFIX = "EDGEVLM_"
CONFIG_VARIABLE = "EDGEVLM_CONFIG"
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class ResolvedConfig:
    """The settings, where each one came from, and names that mean nothing."""

    config: ServiceConfig
    sources: dict[str, str]
    warnings: tuple[str, ...]


def setting_types() -> dict[str, type]:
    """The plain type of every setting, without ``None`` and words."""
    hints = get_type_hints(ServiceConfig)
    return {item.name: _plain(hints[item.name]) for item in fields(ServiceConfig)}


def setting_words() -> dict[str, tuple[str, ...]]:
    """The words that settings take in place of a value of their plain type."""
    hints = get_type_hints(ServiceConfig)
    return {item.name: _words(hints[item.name]) for item in fields(ServiceConfig)}


def resolve_config(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> ResolvedConfig:
    """Lay the four layers over each other.

    Args:
        flags: settings given on the command line.
        environment: variables; ``EDGEVLM_CONFIG`` names the file where ``file`` is ``None``.

    Raises:
        UsageError: a file cannot be read, has an unknown key, or a value is wrong. The message
            names the layer.
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    types, words = setting_types(), setting_words()
    values: dict[str, Any] = {}
    sources = dict.fromkeys(types, "default")
    warnings = []

    def lay(name: str, value: Any, source: str) -> None:
        values[name], sources[name] = value, source

    if file is not None:
        for name, value in _read_file(file, types).items():
            lay(name, _from_toml(value, types[name], words[name], f"{file}: {name}"), str(file))
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in types:
            lay(name, _from_text(text, types[name], words[name], variable), variable)
        else:
            warnings.append(f"the variable {variable} names no setting and is ignored")
    for name, value in flags.items():
        lay(name, value, "flag")
    if "engine" not in values:
        raise UsageError(
            "no engine: pass --engine DIR, set EDGEVLM_ENGINE, or write engine = ... in the"
            " configuration file"
        )
    return ResolvedConfig(ServiceConfig(**values), sources, tuple(warnings))


def _plain(hint: Any) -> type:
    """``T`` of ``T``, ``T | None`` or ``T | Literal[...]``."""
    plain: type = next(iter(get_args(hint)), hint)
    return plain


def _words(hint: Any) -> tuple[str, ...]:
    return tuple(word for t in get_args(hint) if get_origin(t) is Literal for word in get_args(t))


def _read_file(path: Path, types: Mapping[str, type]) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    unknown = [name for name in values if name not in types]
    if unknown:
        raise UsageError(f"{path}: unknown setting {unknown[0]!r}; known: {', '.join(types)}")
    return values


def _from_toml(value: Any, wanted: type, words: tuple[str, ...], where: str) -> Any:
    if value in words:
        return value
    if wanted is Path and isinstance(value, str):
        return Path(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        raise UsageError(f"{where} must be {_legal(wanted, words)}, got {value!r}")
    return value


def _from_text(text: str, wanted: type, words: tuple[str, ...], where: str) -> Any:
    if text in words:
        return text
    try:
        return _WORDS[text.lower()] if wanted is bool else wanted(text)
    except (KeyError, ValueError):
        legal = "true or false" if wanted is bool else _legal(wanted, words)
        raise UsageError(f"{where} must be {legal}, got {text!r}") from None


def _legal(wanted: type, words: tuple[str, ...]) -> str:
    return " or ".join((f"a {wanted.__name__}", *words))
