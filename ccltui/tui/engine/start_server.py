"""Start the process that computes. Imports little: it is started before the screen is made."""

from __future__ import annotations

import multiprocessing
import socket
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from ccltui.parsers.ingest.worker_pool import starting
from ccltui.tui.engine.server import serve
from ccltui.tui.options import ExplorerOptions


@dataclass(frozen=True, slots=True)
class Started:
    """A process, and this end of the connection to it: it ends when that is closed."""

    process: BaseProcess
    connection: socket.socket

    @classmethod
    def now(cls, options: ExplorerOptions) -> Started:
        """Start one. Raises OSError where there can be none."""
        ours, theirs = socket.socketpair()
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=serve, args=(theirs, options), daemon=True)
        with theirs, starting():
            process.start()
        return cls(process, ours)
