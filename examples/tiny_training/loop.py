"""The training loop: by the wall clock, with evaluations, saved states and a final export."""

from __future__ import annotations

import copy
import itertools
import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from edgevlm.accuracy.tiny.buckets import BUCKETS

from .evaluate import Evaluator, format_accuracies, lowest
from .feeder import CHUNK_PROMPTS, Feeder
from .options import Options
from .pool import Pool
from .schedule import STAGES, RateSchedule, average_rate
from .session import Clock, Session, build_session
from .state import (
    Progress,
    export,
    has_state,
    load_exported,
    load_state,
    read_progress,
    save_state,
)
from .step import BucketStep, new_memory_pool

_POOL_PROMPTS = 64 * CHUNK_PROMPTS
_FIRST_PROMPTS = 4 * CHUNK_PROMPTS
_LOG_STEPS = 50
_CLOSING_SECONDS = 15.0  # final evaluation, state and export
_MAX_RETREATS = 3


@dataclass
class Watch:
    """Notices a run that goes wrong, from the mean loss of each logging window."""

    best: float = math.inf
    bad_windows: int = 0

    def failing(self, loss: float, skipped: float, steps: int) -> bool:
        """Whether to go back: most steps skipped, or the loss far above its best for a while."""
        if skipped > steps / 2:
            return True
        if not math.isfinite(loss):
            return False  # a few bad batches; their steps were skipped
        self.best = min(self.best, loss)
        self.bad_windows = self.bad_windows + 1 if loss > self.best + 1.5 else 0
        return self.bad_windows >= 4


@dataclass
class Run:
    """A run in progress: what the loop changes as it goes."""

    options: Options
    clock: Clock
    session: Session
    feeder: Feeder
    pools: dict[str, Pool]
    steps: dict[str, BucketStep]
    progress: Progress
    stop: bool = False
    peak: float = 0.0
    retreats: int = 0
    watch: Watch = field(default_factory=Watch)
    snapshot: dict[str, Any] = field(default_factory=dict)

    def take_snapshot(self) -> None:
        """Remember a good state, on the device."""
        self.snapshot = copy.deepcopy(self.session.trainee.state_dict())

    def retreat(self) -> None:
        """Go back to the last good state with half the learning rate."""
        self.retreats += 1
        self.peak /= 2
        self.watch = Watch()
        self.session.trainee.load_state_dict(self.snapshot)
        self.clock.say(f"unstable: back to the last good state, peak rate {self.peak:.2e}")


def train(options: Options, started: float) -> None:
    """Run one command from start to export."""
    clock = Clock(started)
    stage = STAGES[options.stage]
    before = read_progress(options.work) if options.resume else Progress()
    with Feeder(
        stage.shares,
        questions=options.questions,
        seed=options.seed,
        workers=options.workers,
        first=before.next_chunk,
    ) as feeder:
        run = _prepare(options, clock, feeder)
        signal.signal(signal.SIGTERM, lambda *_: setattr(run, "stop", True))
        layouts = [run.session.layout(name) for name in stage.shares]
        evaluator = Evaluator(
            layouts,
            run.session.tables,
            prompts=options.eval_prompts,
            batch_patches=options.patches,
            device=run.session.device,
        )
        try:
            _loop(run, stage.order(options.seed), evaluator)
        finally:
            # Whatever happened, what was learnt so far is kept.
            _finish(run, evaluator)


def _prepare(options: Options, clock: Clock, feeder: Feeder) -> Run:
    session = build_session(options)
    progress = Progress()
    if options.resume and has_state(options.work):
        progress = load_state(options.work, session.trainee)
        clock.say(f"resumed at step {progress.step} after {progress.seconds:.0f} s of training")
    elif options.init:
        load_exported(options.init, session.trainee)
        clock.say(f"weights from {options.init}")
    names = list(STAGES[options.stage].shares)
    pools = {
        name: Pool(BUCKETS[name], options.questions, _POOL_PROMPTS, session.device)
        for name in names
    }
    while any(pool.size < _FIRST_PROMPTS for pool in pools.values()):
        if chunk := feeder.wait(60):
            pools[chunk.bucket].add(chunk)
        else:
            raise RuntimeError("no prompts were generated for a minute")
    clock.say(f"{sum(pool.size for pool in pools.values())} prompts ready")
    steps = {name: BucketStep(session.engine, session.layout(name), pools[name]) for name in names}
    run = Run(options, clock, session, feeder, pools, steps, progress, peak=options.rate)
    if session.device.type == "cuda" and options.graphs:
        _capture(run)
    return run


def _capture(run: Run) -> None:
    memory = new_memory_pool()
    for name, step in run.steps.items():
        try:
            step.capture(memory)
            used = torch.cuda.max_memory_allocated() / 2**30
            run.clock.say(f"captured {name} (peak {used:.1f} GiB)")
        except RuntimeError as error:
            # Slower, but the run goes on: the step stays eager.
            run.clock.say(f"no graph for {name}, it runs eagerly: {str(error)[:300]}")
            torch.cuda.synchronize()


def _loop(run: Run, order: list[str], evaluator: Evaluator) -> None:
    options, clock, trainee = run.options, run.clock, run.session.trainee
    begin = clock.now
    end = options.minutes * 60 - _CLOSING_SECONDS
    last_eval = last_save = window_start = begin
    window_steps = step = 0
    run.take_snapshot()
    for step, name in _steps(order, options.max_steps):
        if run.stop or clock.now >= end:
            break
        for chunk in run.feeder.poll(2):
            run.pools[chunk.bucket].add(chunk)
        schedule = RateSchedule(run.peak, options.warm_up, end - begin, options.decay_minutes * 60)
        rate = schedule.rate(step, clock.now - begin)
        trainee.rate.fill_(rate)
        trainee.average_rate.fill_(average_rate(run.progress.step))
        run.steps[name]()
        window_steps += 1
        run.progress = Progress(run.progress.step + 1, run.feeder.next_chunk, run.progress.seconds)
        if window_steps < _LOG_STEPS:
            continue
        failing = _log(run, step, rate, window_steps, clock.now - window_start)
        run.progress = Progress(
            run.progress.step,
            run.progress.next_chunk,
            run.progress.seconds + clock.now - window_start,
        )
        window_start, window_steps = clock.now, 0
        if failing:
            if run.retreats == _MAX_RETREATS:
                clock.say("still unstable: stopping")
                return
            run.retreat()
        elif clock.now - last_eval > options.eval_seconds:
            scores = evaluator.score(trainee.average)
            clock.say("held-out accuracy\n" + format_accuracies(scores))
            if options.until is not None and lowest(scores) >= options.until / 100:
                return
            run.take_snapshot()
            last_eval = window_start = clock.now
        if clock.now - last_save > options.save_seconds:
            save_state(options.work, trainee, run.progress)
            last_save = window_start = clock.now


def _steps(order: list[str], limit: int | None) -> Iterator[tuple[int, str]]:
    names = itertools.cycle(order)
    return zip(itertools.count() if limit is None else range(limit), names, strict=False)


def _log(run: Run, step: int, rate: float, steps: int, seconds: float) -> bool:
    """Print one line; true when the run goes wrong."""
    parts = {name: bucket.take() for name, bucket in run.steps.items()}
    count = sum(part[2] for part in parts.values())
    loss = sum(part[0] * part[2] for part in parts.values()) / max(count, 1)
    norm = sum(part[1] * part[2] for part in parts.values()) / max(count, 1)
    skipped = float(run.session.trainee.skipped)
    run.session.trainee.skipped.zero_()
    # One line in four is enough to follow; trouble always shows.
    if (step + 1) // _LOG_STEPS % 4 == 0 or skipped:
        detail = " ".join(f"{name}:{part[0]:.3f}" for name, part in parts.items() if part[2])
        made = sum(pool.received for pool in run.pools.values())
        run.clock.say(
            f"step {run.progress.step} loss {loss:.4f} norm {norm:.2f} lr {rate:.2e} "
            f"{steps / seconds:.1f} steps/s prompts {made} skipped {skipped:.0f} | {detail}"
        )
    return run.watch.failing(loss, skipped, steps)


def _finish(run: Run, evaluator: Evaluator) -> None:
    options, trainee = run.options, run.session.trainee
    save_state(options.work, trainee, run.progress)
    run.clock.say(f"state saved at step {run.progress.step}")
    if options.export:
        shard = int(options.shard_mib * 2**20) or None
        export(options.export, trainee.average, shard)
        run.clock.say(f"exported to {options.export}")
    scores = evaluator.score(trainee.average)
    run.clock.say("final held-out accuracy\n" + format_accuracies(scores))
