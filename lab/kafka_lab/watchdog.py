"""Ends brokers whose owner is gone.

Run as a script of its own, with the standard library only, as the leader of the process group the
brokers are in. It waits for the end of its standard input: a pipe that only the owner has
open, so it ends with the owner, even when that is killed by SIGKILL. Linux's PR_SET_PDEATHSIG would
not do: it follows the thread that started the child, not the process.

    python watchdog.py [DIRECTORY]     DIRECTORY is removed at the end
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    """Wait, then kill the process group, this process included, and remove the directory."""
    for spared in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(spared, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    group = os.getpgrp()
    if os.fork() > 0:
        signal.pause()
    os.setpgid(0, 0)  # outside of the group, the child outlives the kill and can tidy up
    os.killpg(group, signal.SIGKILL)
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for _ in range(50):  # a dying JVM may still write for a moment
        if directory is None or not directory.exists():
            return
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
