"""What was run, in plain values: enough to say whether two runs may be joined, and for reports."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ...core import UsageError
from ...core.decode import DecodeError, decode
from ...core.manifest import edgevlm_version
from ...runtime import write_atomically
from ..datasets import DataSet
from .engine import EngineDirs, EngineInfo
from .runner import RunOptions
from .setting import Setting

FILE = "configuration.json"


@dataclass(frozen=True)
class DataInfo:
    """The data set; ``unusable`` has one line per sample that was left out."""

    file: str
    sha256: str
    samples: int
    unusable: tuple[str, ...]


@dataclass(frozen=True)
class Configuration:
    """A run's parts. All but ``settings`` must be the same for answers to be added to a run.

    Attributes:
        engines: by name.
        settings: JSON by name; one name always means the same setting.
        together: samples that are answered at once.
        versions: of edgevlm, torch and Python.
        ranks: that share the experts. Each limits prompts on its own, so their number matters.
    """

    data: DataInfo
    engines: dict[str, EngineInfo]
    settings: dict[str, str]
    max_tokens: int | None
    together: int
    versions: dict[str, str]
    ranks: int = 1

    @classmethod
    def of(
        cls,
        data: DataSet,
        engines: Sequence[EngineDirs],
        settings: Sequence[Setting],
        options: RunOptions,
        together: int,
    ) -> Configuration:
        """The configuration of a run about to start."""
        unusable = tuple(str(problem) for problem in data.problems)
        return cls(
            data=DataInfo(data.name, data.digest, len(data.samples), unusable),
            engines={engine.name: engine.describe(options.device) for engine in engines},
            settings={setting.name: setting.definition for setting in settings},
            max_tokens=options.max_tokens,
            together=together,
            versions={
                "edgevlm": edgevlm_version(),
                "torch": torch.__version__,
                "Python": platform.python_version(),
            },
            ranks=dist.get_world_size() if options.expert_parallel else 1,
        )

    def joined(self, folder: Path) -> Configuration:
        """This configuration with the settings that ``folder`` has answers for already.

        Raises:
            UsageError: ``folder`` holds answers of a configuration that differs; the message says
                in what.
        """
        try:
            earlier = read_configuration(folder)
        except FileNotFoundError:
            return self
        theirs, mine = asdict(earlier), asdict(self)
        shared = earlier.settings.keys() & self.settings.keys()
        for part in (theirs, mine):
            named = part.pop("settings")
            part["setting"] = {name: named[name] for name in sorted(shared)}
        _require_same(folder, "", theirs, mine)
        return replace(self, settings={**earlier.settings, **self.settings})

    def write(self, folder: Path) -> None:
        """Write it to ``folder``."""
        write_atomically(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")


def read_configuration(folder: Path) -> Configuration:
    """The configuration of the run in ``folder``.

    Raises:
        UsageError: it is damaged.
        FileNotFoundError: there is none.
    """
    path = folder / FILE
    try:
        return decode(Configuration, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, DecodeError) as error:
        raise UsageError(f"{path}: damaged ({error}); choose another --output") from None


def _require_same(folder: Path, part: str, theirs: Any, mine: Any) -> None:
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in {**theirs, **mine}:
            _require_same(folder, f"{part} {key}".strip(), theirs.get(key), mine.get(key))
    elif theirs != mine:
        raise UsageError(
            f"{folder}: holds answers of another run: {part} was {_short(theirs)}, is"
            f" {_short(mine)}; choose another --output or delete this one"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
