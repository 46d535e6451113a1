"""Entry points of ``ccltui``, ``ccl-metrics`` and ``python -m ccltui``."""

from __future__ import annotations

import os
import sys

from ccltui import guard

guard.bind()
# numpy would start a thread a CPU for linear algebra that nobody asks for, here and in workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    """``ccltui``: explore a trace directory, or print its metrics."""
    # Imported here: what these import in turn must be bound, and a worker needs none of it.
    from ccltui.splash import SPLASH  # noqa: PLC0415

    guard.bind_workers()
    arguments = sys.argv[1:]
    with SPLASH.shown(arguments):
        from ccltui import cli, process  # noqa: PLC0415  (slow: the frame of the screen is first)

        status = process.run(SPLASH.behind(cli.run), arguments)
    return process.leave(status) if SPLASH.explored else status


def main_metrics() -> int:
    """``ccl-metrics``: one metric of a trace directory as a JSON document."""
    from ccltui import process  # noqa: PLC0415
    from ccltui.commands import ccl_metrics  # noqa: PLC0415

    guard.bind_workers()
    return process.run(ccl_metrics.run, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
