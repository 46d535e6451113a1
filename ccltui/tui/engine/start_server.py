"""Start the server process. Imports little, because it is started before the screen is made."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.parsers.ingest.worker_pool import starting
from ccltui.tui.engine.server import serve

if TYPE_CHECKING:
    from ccltui.metrics.registry import Functions


class StartedServer(Struct, frozen=True):
    """A server process and this end of the connection to it; it ends when that is closed."""

    process: BaseProcess
    connection: socket.socket

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def start_server(functions: Functions | None = None) -> StartedServer:
    """Start a server process that also computes the metrics in ``functions``.

    Raises:
        OSError: No process or no connection can be made.
    """
    ours, theirs = socket.socketpair()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(theirs, functions), daemon=True)
    with theirs, starting():
        process.start()
    return StartedServer(process, ours)
