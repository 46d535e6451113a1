"""Run a command and turn every way in which it ends into an exit status and one line."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence

from ccltui import exit_codes
from ccltui.report.output import print_message, print_traceback

Command = Callable[[Sequence[str]], int]


def run(command: Command, arguments: Sequence[str]) -> int:
    """Run ``command`` and return its exit status; errors are printed in one line.

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
    except OSError as error:  # a full disk fails again in the flush
        _discard_stdout()
        return status if status == exit_codes.INPUT else _print_error(error)  # printed already
    return status


def finish(status: int) -> int:
    """Exit at once if other threads are still running, else return ``status``.

    Python would wait for the threads at exit, and computing a metric of a large job takes long.
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
        print_message("interrupted")
        return exit_codes.INTERRUPTED
    except Exception as error:
        if "--debug" in arguments:
            print_traceback()
        return _print_error(error)


def _print_error(error: Exception) -> int:
    # Imported here: not needed for --help.
    from ccltui.parsers.errors import GrammarError, TraceError  # noqa: PLC0415

    if isinstance(error, GrammarError):
        print_message(str(error))
        return exit_codes.USAGE
    if isinstance(error, TraceError):
        print_message(str(error))
    elif isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("ccltui"):
        # A bare Python, or one in which pip was told to install no requirements.
        print_message(f"{error.name} is not installed; ccltui doctor --environment lists what is")
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        print_message(f"{place}{error.strerror or error}")
    else:
        text = f"{type(error).__name__}: {error}"
        print_message(f"internal error: {text}; --debug shows where, please report it")
    return exit_codes.INPUT


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush succeeds."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
