"""Start processes while the screen is still being made. Imports no reader and no metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ccltui.parsers.ingest.worker_pool import WorkerPool
from ccltui.tui.engine.server import start_server

if TYPE_CHECKING:
    from ccltui.tui.engine.client import RemoteAnalyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.options import ExplorerOptions


class EarlyProcesses:
    """Worker processes and server process, started while the screen is still being made.

    The first load takes the worker processes; a later load starts its own.
    """

    def __init__(self, options: ExplorerOptions) -> None:
        self._pool: WorkerPool | None = WorkerPool.awake(options.jobs)
        self._functions = options.functions
        try:
            self._server = start_server(options.functions)
        except BaseException:  # also a signal: processes must not outlast what they need to start
            self._pool.close(wait=False)
            raise

    def analyst(self) -> RemoteAnalyst:
        """Return the analyst that computes in the server process."""
        from ccltui.tui.engine.client import RemoteAnalyst  # noqa: PLC0415  (after the first paint)

        return RemoteAnalyst(self._server, self._functions)

    def load(
        self,
        path: str,
        options: ExplorerOptions,
        post: Callable[[Fact], object],
        cancelled: Callable[[], bool],
    ) -> None:
        """Call :func:`load_or_follow` with the worker processes, the first time."""
        from ccltui.tui.engine.loader import load_or_follow  # noqa: PLC0415  (after the first paint)

        pool, self._pool = self._pool, None
        load_or_follow(path, options, post, cancelled, pool=pool)

    def close(self) -> None:
        """End the server process, and the worker processes if no load took them."""
        self._server.close()
        if self._pool is not None:
            self._pool.close(wait=False)
