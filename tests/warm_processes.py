"""Processes that are copies of one which has imported what they need.

A spawned process imports numpy and the metrics anew, 0.5 CPU-s for each explorer that reads files.
Tests of how processes start run the commands themselves.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess
from typing import Any

_SPAWNED = multiprocessing.get_context


class _Copy(ForkServerProcess):
    """A copy with the environment of the process that started it, as a spawned one has."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class _Copies(ForkServerContext):
    Process = _Copy


_COPIES = _Copies()
_COPIES.set_forkserver_preload(
    ["ccltui.tui.engine.server", "ccltui.tui.engine.analysis", "ccltui.parsers.ingest.rank_worker"]
)


def get_context(method: str | None = None) -> BaseContext:
    """As ``multiprocessing.get_context``, with copies in place of spawned processes."""
    return _COPIES if method == "spawn" else _SPAWNED(method)
