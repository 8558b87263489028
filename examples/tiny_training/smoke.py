"""Times one training step of every bucket, eager and compiled, before a real run."""

from __future__ import annotations

import dataclasses
import gc
import time

import torch

from edgevlm.accuracy.tiny.buckets import BUCKETS
from edgevlm.accuracy.tiny.render import render

from .chunks import ChunkMaker
from .options import Options
from .pool import Pool
from .session import Clock, Session, build_session
from .step import BucketStep, new_memory_pool

_PROMPTS = 512
_STEPS = 20
# (precision, compile mode, buckets), in the order of what a run most needs to know.
_PLAN = (
    ("bf16", "static", ("s256", "m4")),
    ("autocast", "static", ("s256", "m4")),
    ("bf16", "off", tuple(BUCKETS)),
    ("autocast", "off", ("s256",)),
    ("bf16", "static", ("s512", "m2", "w384", "t512")),
)


def smoke(options: Options, started: float) -> None:
    """Print ms per step for as many combinations as ``--minutes`` allows."""
    clock = Clock(started)
    end = options.minutes * 60
    maker = ChunkMaker(options.questions, options.seed, "train")
    chunks = {name: maker.make(bucket, 0, _PROMPTS) for name, bucket in BUCKETS.items()}
    clock.say(f"{_PROMPTS * len(chunks)} prompts generated in this process")
    for precision, mode, names in _PLAN:
        if clock.now > end:
            clock.say("time is up")
            return
        variant = dataclasses.replace(options, precision=precision, compile=mode)
        session = build_session(variant)
        for name in names:
            # A pool dies with its last graph, so buckets that come and go cannot share one.
            memory = new_memory_pool() if session.device.type == "cuda" else None
            if clock.now > end:
                break
            pool = Pool(BUCKETS[name], options.questions, _PROMPTS, session.device)
            pool.add(chunks[name])
            _time_bucket(clock, session, pool, name, f"{precision:<8} {mode:<6}", memory)
        del session
        gc.collect()


def _time_bucket(
    clock: Clock, session: Session, pool: Pool, name: str, label: str, memory: object
) -> None:
    bucket = BUCKETS[name]
    step = BucketStep(session.engine, session.layout(name), pool)
    begin = time.monotonic()
    try:
        if memory is not None:
            step.capture(memory)
        else:
            step()
    except Exception as error:
        clock.say(f"{label} {name:<5} FAILED {type(error).__name__}: {str(error)[:400]}")
        return
    prepared = time.monotonic() - begin
    session.trainee.rate.fill_(3e-4)
    step.take()
    milliseconds = _time(step, session.device)
    loss, norm, _ = step.take()
    batch = session.engine.batch_size(bucket)
    drawn = pool.draw(batch)
    heads, cells = drawn.heads.flatten(0, 1), drawn.cells.flatten(0, 1)
    drawing = _time(
        lambda: render(heads, cells, bucket.height, bucket.width, session.tables), session.device
    )
    used = 0.0
    if memory is not None:
        used = torch.cuda.max_memory_reserved() / 2**30
    clock.say(
        f"{label} {name:<5} {milliseconds:7.2f} ms/step  prompts {batch:<4} "
        f"render(eager) {drawing:5.2f} ms  set-up {prepared:5.1f} s  "
        f"loss {loss:.3f} norm {norm:.2f} reserved {used:.0f} GiB"
    )


def _time(call: object, device: torch.device) -> float:
    """Mean milliseconds of a call over a few steps."""
    if not callable(call):
        raise TypeError("something to call is needed")
    call()
    _wait(device)
    begin = time.perf_counter()
    for _ in range(_STEPS):
        call()
    _wait(device)
    return (time.perf_counter() - begin) / _STEPS * 1000


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
