"""Settings of the whole test run."""

from __future__ import annotations

import os

# Before anything imports Triton: its kernels run in the interpreter on machines without a GPU.
os.environ["TRITON_INTERPRET"] = "1"
