"""Joining the other ranks of a run that ``torchrun`` started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ...core import UsageError


@dataclass(frozen=True)
class Ranks:
    """This process's place among the others."""

    rank: int
    size: int
    device: torch.device


@contextmanager
def joined(device_type: str) -> Iterator[Ranks]:
    """Join the run: NCCL on ``"cuda"``, one GPU per rank; gloo on ``"cpu"``.

    Without ``torchrun`` it is a run of one.

    Raises:
        UsageError: there are fewer GPUs than ranks on this host.
    """
    alone = "RANK" not in os.environ  # what torchrun tells each process
    local = 0 if alone else int(os.environ["LOCAL_RANK"])
    if device_type == "cuda":
        if local >= torch.cuda.device_count():
            raise UsageError(
                f"rank {local} of this host has no GPU, there are {torch.cuda.device_count()};"
                " lower torchrun --nproc-per-node or use --device cpu"
            )
        torch.cuda.set_device(local)
    device = torch.device(device_type, local) if device_type == "cuda" else torch.device("cpu")
    backend = "nccl" if device_type == "cuda" else "gloo"
    gpu = device if device_type == "cuda" else None
    if alone:
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=0, world_size=1, device_id=gpu)
    else:
        dist.init_process_group(backend, device_id=gpu)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), device)
        dist.barrier()  # who leaves first takes connections down that others may still use
    finally:
        dist.destroy_process_group()
