"""An evaluation: what is answered already is kept, the rest is asked, in any number of processes.

Answers do not depend on how often a run was interrupted or how many workers it had: samples are
always put together in the same small groups, and a group is always answered as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...core import UsageError
from ..datasets import DataSet, Sample
from .answer import Key
from .configuration import Configuration
from .engine import EngineDirs, named_apart
from .journal import Journal, locked
from .progress import Progress
from .results import Results
from .runner import RunOptions, Unit
from .setting import Setting, distinct
from .workers import run_units

TOGETHER = 4
"""Samples in a group. Their images are remembered, so it bounds the memory that takes."""


@dataclass(frozen=True)
class Plan:
    """Everything that is to be answered.

    Raises:
        UsageError: there is nothing to do, or two engines or settings share a name.
    """

    data: DataSet
    engines: Sequence[EngineDirs]
    settings: Sequence[Setting]
    options: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        if not self.engines or not self.settings:
            raise UsageError("an evaluation needs an engine and a setting at least")
        object.__setattr__(self, "engines", tuple(named_apart(list(self.engines))))
        object.__setattr__(self, "settings", tuple(distinct(self.settings)))

    @property
    def keys(self) -> Iterator[Key]:
        """Everything that is to be answered, in the order of the results."""
        for engine in self.engines:
            for setting in self.settings:
                for sample in self.data.samples:
                    yield engine.name, setting.name, sample.id

    def units(self, done: Callable[[Key], bool]) -> Iterator[Unit]:
        """The work that is left."""
        for engine in self.engines:
            for group in self._groups():
                missing = [
                    setting
                    for setting in self.settings
                    if not all(done((engine.name, setting.name, s.id)) for s in group)
                ]
                if missing:
                    yield Unit(engine, group, tuple(missing))

    def _groups(self) -> Iterator[tuple[Sample, ...]]:
        samples = self.data.samples
        for start in range(0, len(samples), TOGETHER):
            yield samples[start : start + TOGETHER]


def evaluate(plan: Plan, output: Path, workers: int = 1) -> Results:
    """Answer everything in ``plan`` that ``output`` has no answer for.

    Raises:
        UsageError: ``output`` is of another configuration, in use or cannot be written.
        EdgeVLMError: an engine cannot be opened, or a worker ended.
    """
    if workers < 1:
        raise UsageError(f"workers must be at least 1, found {workers}")
    with locked(output):
        configuration = Configuration.of(
            plan.data, plan.engines, plan.settings, plan.options, TOGETHER
        )
        configuration.joined(output).write(output)
        journal = Journal(output)
        wanted = set(plan.keys)
        progress = Progress(len(wanted), len(wanted & journal.answers.keys()))
        units = list(plan.units(journal.answers.__contains__))
        for answers in run_units(units, plan.options, workers):
            progress.add(journal.append(answers))
        journal.sort(plan.keys)
    return Results(configuration, tuple(plan.settings), plan.data.samples, journal.answers)
