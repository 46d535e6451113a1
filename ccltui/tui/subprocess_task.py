"""Run work that would delay the keys in a process of its own, which cancelling ends.

A ``ProcessPoolExecutor`` cannot end work that has begun, and ``multiprocessing.Pool`` does not
notice that a worker has died: a process and a pipe do both.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final, TypeVar, cast

from ccltui.parsers.ingest.rank_worker import ignore_sigint
from ccltui.parsers.ingest.worker_pool import starting
from ccltui.tui.terminal import compat

T = TypeVar("T")

_POLL_S: Final = 0.1


def run_in_process(make: Callable[[], T], cancelled: Callable[[], bool]) -> T | None:
    """Return what ``make`` returns in a spawned process; None once cancelled.

    Raises:
        RuntimeError: The process ended before it was done.
        Exception: Any exception that ``make`` raises.
    """
    compat.prepare_for_processes()
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_make, args=(make, sender), daemon=True)
    with sender, starting():
        process.start()
    try:
        while not receiver.poll(_POLL_S):
            if cancelled():
                return None
        made = receiver.recv()
    except EOFError:
        raise RuntimeError("the process that reads has ended early") from None
    finally:
        process.terminate()
        process.join()
        receiver.close()
    if isinstance(made, Exception):
        raise made
    return cast("T", made)


def _make(make: Callable[[], object], sender: Connection) -> None:
    ignore_sigint()
    try:
        sender.send(make())
    except Exception as error:  # raised again in the explorer, which has the screen
        sender.send(error)
