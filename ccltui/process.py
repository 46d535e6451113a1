"""Run a command and turn every way it may end into an exit status and one line on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence

from ccltui import exit_codes
from ccltui.report.output import say, tell_traceback

Command = Callable[[Sequence[str]], int]


def run(command: Command, arguments: Sequence[str]) -> int:
    """Return the exit status of ``command``; print an error as one line, without a traceback.

    ``--debug`` among the arguments adds the traceback.
    """
    status = exit_codes.OK
    try:
        status = _guarded(command, arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        return exit_codes.BROKEN_PIPE
    except OSError as error:  # a full disk, met again by the flush
        _discard_stdout()
        return status if status == exit_codes.INPUT else _report(error)  # INPUT: already printed
    return status


def leave(status: int) -> int:
    """Return the status, or end the process at once while other threads are still running.

    Python would wait for these threads, whose results are no longer needed; a metric of a large
    job takes long.
    """
    if threading.active_count() == 1:
        return status
    import multiprocessing  # noqa: PLC0415  (most commands end without threads)

    for child in multiprocessing.active_children():
        child.terminate()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _guarded(command: Command, arguments: Sequence[str]) -> int:
    try:
        return command(arguments)
    except SystemExit as stop:  # argparse, after it has printed
        return stop.code if isinstance(stop.code, int) else exit_codes.OK
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        say("interrupted")
        return exit_codes.INTERRUPTED
    except Exception as error:
        if "--debug" in arguments:
            tell_traceback()
        return _report(error)


def _report(error: Exception) -> int:
    """Print an error as one line; return its exit status."""
    # Imported here: a command line that is only asked for its help reads no trace.
    from ccltui.parsers.errors import GrammarError, TraceError  # noqa: PLC0415

    if isinstance(error, GrammarError):
        say(str(error))
        return exit_codes.USAGE
    if isinstance(error, TraceError):
        say(str(error))
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        say(f"{place}{error.strerror or error}")
    else:
        text = f"{type(error).__name__}: {error}"
        say(f"internal error: {text}; --debug shows where, please report it")
    return exit_codes.INPUT


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush succeeds."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
