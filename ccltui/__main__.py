"""Entry points of ``ccltui``, ``ccl-metrics`` and ``python -m ccltui``.

Importing this takes the working directory off the module search path, here and in child processes.
It is often a directory of traces, which another user may have written: a ``threading.py`` in it
must never run. Python puts it first on the path of ``python -m`` and ``python -c``, and
multiprocessing starts its children by the latter. Before that only modules are imported that the
interpreter has already loaded: other imports would search the working directory.

Imports that Python does before any code of ccltui cannot be prevented here: ``./ccltui`` by
``python -m ccltui``, and start-up modules like ``sitecustomize`` where an entry of PYTHONPATH is
empty or relative. ``python -P -m ccltui`` and absolute entries prevent both.
"""

# No import of __future__: Python would search the working directory for it, as for any module.
import atexit
import gc
import os
import sys

_SAFE_PATH = "PYTHONSAFEPATH"
_SEARCH_PATH = "PYTHONPATH"


def leave_working_directory() -> None:
    """Prevent imports from the working directory, in this process and in those started later.

    Absolute entries of PYTHONPATH stay, because users list their installed packages there.
    """
    os.environ[_SAFE_PATH] = "1"
    unwanted = {"", os.curdir, *_relative_entries()}
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    first = sys.path[0] if sys.path and not sys.flags.safe_path else None
    ran_from = first is not None and first == _working_directory()
    sys.path[:] = [
        entry
        for at, entry in enumerate(sys.path)
        if entry not in unwanted and not (at == 0 and ran_from)
    ]
    if ran_from and first == home:  # a checkout that is not installed: last on the path
        sys.path.append(home)


def _relative_entries() -> set[str]:
    """Path entries from relative entries of PYTHONPATH; children get the absolute ones."""
    stated = os.environ.get(_SEARCH_PATH, "")
    if not stated or sys.flags.ignore_environment:
        return set()
    entries = stated.split(os.pathsep)
    kept = [entry for entry in entries if os.path.isabs(entry)]  # noqa: PTH117
    left_out = {entry for entry in entries if entry not in kept}
    if left_out and kept:
        os.environ[_SEARCH_PATH] = os.pathsep.join(kept)
    elif left_out:
        del os.environ[_SEARCH_PATH]
    here = _working_directory()
    if here is None:
        return left_out
    # Python has made them absolute.
    places = {os.path.normpath(os.path.join(here, entry)) for entry in left_out}  # noqa: PTH118
    return left_out | places.difference(kept)


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it was removed
        return None


leave_working_directory()
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

        require_safe_children()
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

        require_safe_children()
        return process.run(ccl_metrics_command.run, sys.argv[1:])
    except KeyboardInterrupt:
        return _interrupted("ccl-metrics")


def require_safe_children() -> None:
    """Restart this command with ``-P`` if Python ignores the environment (``-E``).

    Its child processes would ignore PYTHONSAFEPATH too.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])


def _raise_lost_signals() -> None:
    from ccltui.parsers.errors import raise_lost_signals  # noqa: PLC0415

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

    if _is_watched() or threading.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()  # as multiprocessing does before it exits like this
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # `process.run` reported what failed
                stream.flush()
    os._exit(status)


def _is_watched() -> bool:
    """Return whether a debugger, a profiler or an interactive Python goes on after the command."""
    monitoring = getattr(sys, "monitoring", None)  # profilers since Python 3.12; six tools at most
    tools = [] if monitoring is None else [monitoring.get_tool(number) for number in range(6)]
    traced = sys.gettrace() is not None or sys.getprofile() is not None or any(tools)
    return bool(sys.flags.inspect or traced or "bdb" in sys.modules)


if __name__ == "__main__":
    run_ccltui()
