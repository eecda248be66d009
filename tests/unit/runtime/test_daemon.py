"""What the daemon imports before it forks must not start a thread: threads do not survive a fork."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import importlib, threading
from statefulspark.spark import daemon
for name in daemon.PRELOADED:
    importlib.import_module(name)
print([thread.name for thread in threading.enumerate()])
"""


def test_importing_what_workers_need_starts_no_thread() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)

    assert ended.stdout.strip() == "['MainThread']"
