"""Entry points of ``ccltui``, ``ccl-metrics`` and ``python -m ccltui``."""

# No import of __future__: Python would search the working directory for it, as for any module.
import atexit
import gc
import os
import sys

from ccltui import safe_path

safe_path.leave_working_directory()
# numpy would start one thread per CPU for linear algebra, which is not used here or in workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Imports make a hundred thousand objects, and nearly all live on. At the default of 700 new objects
# the garbage collector runs 70 times before the first metric, a tenth of the time; at 50,000 once,
# 15 of 250 ms.
gc.set_threshold(200_000)


def run_ccltui() -> None:
    """Run ``ccltui`` as a process of its own."""
    _leave(main())


def run_ccl_metrics() -> None:
    """Run ``ccl-metrics`` as a process of its own."""
    _leave(main_metrics())


def main() -> int:
    """Run ``ccltui``: explore a trace directory, or print its metrics."""
    # Imported here: after the working directory is off the path, and not in worker processes.
    try:
        _raise_lost_signals()
        if sys.argv[1:] == ["--version"]:  # asked often, and the parser of all else takes longer
            from ccltui import process, verbs  # noqa: PLC0415

            return process.run(verbs.run, ())
        from ccltui.splash import SPLASH  # noqa: PLC0415

        safe_path.require_safe_children()
        arguments = sys.argv[1:]
        with SPLASH.shown(arguments):
            from ccltui import cli, process  # noqa: PLC0415  (slow: the splash is shown first)

            status = process.run(SPLASH.restoring(cli.run), arguments)
        return process.finish(status) if SPLASH.explorer_ran else status
    except KeyboardInterrupt:
        return _interrupted("ccltui")


def main_metrics() -> int:
    """Run ``ccl-metrics``: print metrics of a trace directory as a JSON document."""
    try:
        _raise_lost_signals()
        from ccltui import process  # noqa: PLC0415
        from ccltui.commands import ccl_metrics_command  # noqa: PLC0415

        safe_path.require_safe_children()
        return process.run(ccl_metrics_command.run, sys.argv[1:])
    except KeyboardInterrupt:
        return _interrupted("ccl-metrics")


def _raise_lost_signals() -> None:
    from ccltui.parsers.system.lost_signals import raise_lost_signals  # noqa: PLC0415

    raise_lost_signals()


def _interrupted(name: str) -> int:
    """Report ctrl+c during the imports, before `process.run` handles it."""
    sys.stderr.write(f"{name}: interrupted\n")
    return 128 + 2  # SIGINT, as exit_codes.INTERRUPTED, which may not be imported yet


def _leave(status: int) -> None:
    """Exit without clearing every module and object, 25 to 40 of 240 ms of a short command.

    What is registered for the exit of Python runs. A debugger, a profiler or ``python -i`` goes on
    after the command, and Python itself waits for threads that are still running.
    """
    import contextlib  # noqa: PLC0415  (not from the working directory, as in `main`)
    import threading  # noqa: PLC0415

    watched = sys.flags.interactive or sys.gettrace() or sys.getprofile()
    if watched or threading.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()  # as multiprocessing does before it exits like this
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # `process.run` reported what failed
                stream.flush()
    os._exit(status)


if __name__ == "__main__":
    run_ccltui()
