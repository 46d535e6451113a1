"""End this process at once, with what it has started and made, also from a handler of signals."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_CHILD_ENDS_S = 1.0
"""Seconds to wait for a process that was terminated."""


def end_at_once(status: int) -> NoReturn:
    """Exit without waiting for threads; end child processes and remove temporary folders before.

    Imports nothing, because a signal may have come amid an import: a module that is not loaded, or
    half of it, has started no process and made no folder.
    """
    pool = sys.modules.get("ccltui.parsers.ingest.worker_pool")
    children: list[BaseProcess] = []
    with contextlib.suppress(AttributeError, NameError):  # loaded by halves
        getattr(pool, "stop_starts", lambda: None)()
        multiprocessing = sys.modules.get("multiprocessing.process")
        children = getattr(multiprocessing, "active_children", list)()
    for child in children:
        child.terminate()
    for child in children:
        child.join(_CHILD_ENDS_S)  # it may write to a folder that is removed below
    folders = sys.modules.get("ccltui.parsers.system.scratch_folder")
    with contextlib.suppress(AttributeError, NameError):
        getattr(folders, "remove_in_use", lambda: None)()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            stream.flush()
    os._exit(status)
