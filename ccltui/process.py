"""The boundary of the process: every way a command may end, as an exit status and one line."""

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
    """Exit status of ``command``; what goes wrong is told in one line, never as a traceback.

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
        return status if status == exit_codes.INPUT else _tell(error)  # it was told
    return status


def leave(status: int) -> int:
    """End at once where threads still compute what nobody will see, else hand the status back.

    Python would wait for them, and a metric of a large job takes its time.
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
        return _tell(error)


def _tell(error: Exception) -> int:
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
    """Let the interpreter's last flush succeed although nobody reads."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
