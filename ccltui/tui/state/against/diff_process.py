"""Run ``ccltui diff`` in a process of its own.

The command loads the other job, which needs worker processes, and ends when its answer is no longer
wanted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

_POLL_S: Final = 0.1


def run_diff(words: Sequence[str], cancelled: Callable[[], bool]) -> tuple[bytes, bytes] | None:
    """Return what the command prints and its messages, None once ``cancelled``."""
    command = [sys.executable, "-P", "-m", "ccltui", "diff", *words]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        while True:
            try:
                return process.communicate(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                if cancelled():
                    process.kill()
                    return None
