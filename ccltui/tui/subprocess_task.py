"""Work that would hold up the keys, done by a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final, TypeVar, cast

from ccltui.tui.terminal import compat

T = TypeVar("T")

_POLL_S: Final = 0.1


def made_elsewhere(make: Callable[[], T], cancelled: Callable[[], bool]) -> T | None:
    """What ``make`` returns in a spawned process; None once cancelled, and the process ends.

    Raises what ``make`` raises, RuntimeError where the process ends before it is done.
    """
    compat.prepare_for_processes()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_make, args=(make, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        while not ours.poll(_POLL_S):
            if cancelled():
                return None
        made = ours.recv()
    except EOFError:
        raise RuntimeError("the process that reads has ended early") from None
    finally:
        process.terminate()
        process.join()
        ours.close()
    if isinstance(made, Exception):
        raise made
    return cast("T", made)


def _make(make: Callable[[], object], connection: Connection) -> None:
    # ctrl+c reaches the whole process group: it is the explorer's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection.send(make())
    except Exception as error:  # told by the explorer, which has the screen
        connection.send(error)
