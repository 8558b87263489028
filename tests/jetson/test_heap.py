"""Large buffers go back to the system, also after the allocator has seen many of them."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import platform, random
from edgevlm.jetson.heap import keep_heap_small
assert keep_heap_small() == (platform.libc_ver()[0] == "glibc")
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
draw = random.Random(0)
before = resident()
kept = []
for _ in range(400):
    body = bytearray(draw.randrange(200_000, 4_000_000))
    kept.append(bytearray(2_000))  # what keeps a heap from shrinking
    del body
print(resident() - before)
"""


def test_freed_bodies_leave_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 3_000_000
