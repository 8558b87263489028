"""Expert parallelism on a CPU: several processes give what one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from . import worker

WORKER = Path(__file__).with_name("worker.py")


def test_four_ranks_compute_what_one_does() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node=4", str(WORKER)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_without_torchrun_it_is_a_run_of_one() -> None:
    assert worker.main() == 0
