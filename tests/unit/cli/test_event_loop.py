"""Memory of closed connections: a process does not keep it."""

import subprocess
import sys

# Buffers that come and go, between smaller blocks that stay.
SCRIPT = """
from pathlib import Path
from muster.app.event_loop import keep_large_blocks_apart

def resident_mib():
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))

keep_large_blocks_apart()
del [bytearray(1 << 18) for _ in range(2)][:]
before, kept, buffers = resident_mib(), [], []
for _ in range(400):
    buffers.append(bytearray(b"x") * (1 << 18))
    kept.append(bytes(2_000))
del buffers
print(resident_mib() - before)
"""


def test_freed_buffers_return_to_the_system():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20, "of 100 MiB"
