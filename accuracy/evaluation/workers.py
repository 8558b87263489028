"""Sharing units of work among processes.

The calling process hands out one unit at a time and is the only one that keeps results. Workers
that lose their caller, however it ended, end too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

import torch

from ...core import EdgeVLMError, UsageError
from .answer import Answer
from .ranks import announce
from .runner import Runner, RunOptions, Unit

_READY = None


def run_units(units: Sequence[Unit], options: RunOptions, workers: int) -> Iterator[list[Answer]]:
    """Answers as they come, in no particular order if there are several workers.

    No more workers are started than there are units.

    Raises:
        EdgeVLMError: an engine cannot be opened, or a worker ended.
    """
    if options.expert_parallel and workers > 1:
        raise UsageError("--workers share prompts, --expert-parallel experts; use one of them")
    workers = min(workers, len(units))
    if workers <= 1:
        runner = Runner(options)
        for unit in units:
            if options.expert_parallel:
                announce(unit)
            yield from runner.answers(unit)
        if options.expert_parallel:
            announce(None)
        return
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    processes, connections = [], []
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, options, threads), daemon=True)
            process.start()
            theirs.close()  # so that its end is noticed here
            processes.append(process)
            connections.append(ours)
        yield from _hand_out(iter(units), connections)
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.terminate()
            process.join()


def _hand_out(
    units: Iterator[Unit], connections: list[Connection[Unit | None, object]]
) -> Iterator[list[Answer]]:
    busy = list(connections)
    while busy:
        for connection in wait(busy):
            assert isinstance(connection, Connection)
            try:
                message = connection.recv()
            except (EOFError, OSError):
                raise EdgeVLMError(
                    "a worker process ended (out of memory?); finished answers are kept: run the"
                    " same command again, with fewer --workers"
                ) from None
            if message is _READY:
                unit = next(units, None)
                if unit is None:
                    busy.remove(connection)
                else:
                    connection.send(unit)
            elif isinstance(message, EdgeVLMError):
                raise message
            else:
                yield message


def _serve(connection: Connection[object, Unit], options: RunOptions, threads: int) -> None:
    """A worker's life: say it is ready, take a unit, send its answers, until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    torch.set_num_threads(threads)
    runner = Runner(options)
    try:
        while True:
            connection.send(_READY)
            for answers in runner.answers(connection.recv()):
                connection.send(answers)
    except (EOFError, OSError):
        return
    except EdgeVLMError as error:
        connection.send(error)
