"""Write the dump of the flight recorder whenever the node asks for it through the rank's pipe.

With NCCL a thread of PyTorch does so. Gloo is recorded too, but nothing dumps it: neither a request
nor a time-out does (PyTorch 2.8 to 2.14).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path


def answer_requests(pipe: Path, dump: Path, take: Callable[[], bytes]) -> None:
    """Make ``pipe``; a thread writes what ``take`` returns to ``dump`` when something came in."""
    os.mkfifo(pipe, 0o600)
    thread = threading.Thread(
        target=_answer, args=(pipe, dump, take), name="dump_on_request", daemon=True
    )
    thread.start()


def _answer(pipe: Path, dump: Path, take: Callable[[], bytes]) -> None:
    # The node copies what is named as a dump, so a dump has its name when it is whole.
    unfinished = dump.with_name(f".{dump.name}.part")
    while True:
        pipe.read_bytes()
        unfinished.write_bytes(take())
        unfinished.replace(dump)
