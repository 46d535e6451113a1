"""Entry points of ``ccltui``, ``ccl-metrics`` and ``python -m ccltui``."""

# No import of __future__: like any other it would be looked for in the working directory.
import os
import sys

from ccltui import safe_path

safe_path.leave_working_directory()
# numpy would start a thread a CPU for linear algebra that nobody asks for, here and in workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    """``ccltui``: explore a trace directory, or print its metrics."""
    # Imported here: modules must not come from the working directory, and a worker needs none.
    from ccltui.splash import SPLASH  # noqa: PLC0415

    safe_path.require_safe_children()
    arguments = sys.argv[1:]
    with SPLASH.shown(arguments):
        from ccltui import cli, process  # noqa: PLC0415  (slow: the frame of the screen is first)

        status = process.run(SPLASH.restoring_terminal(cli.run), arguments)
    return process.leave(status) if SPLASH.explored else status


def main_metrics() -> int:
    """``ccl-metrics``: one metric of a trace directory as a JSON document."""
    from ccltui import process  # noqa: PLC0415
    from ccltui.commands import ccl_metrics  # noqa: PLC0415

    safe_path.require_safe_children()
    return process.run(ccl_metrics.run, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
