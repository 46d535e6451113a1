"""Run a command: every way in which it ends becomes an exit status and one line; end at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from ccltui import exit_codes
from ccltui.parsers.errors import raise_lost_signals
from ccltui.report.output import LOG, print_message, print_traceback, target_of

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_CHILD_ENDS_S = 1.0
"""Seconds to wait for a process that was terminated."""


def end_at_once(status: int) -> NoReturn:
    """Exit without waiting for threads; end child processes and remove temporary folders before.

    Imports nothing, because a signal may have come amid an import: a module that is not loaded, or
    half of it, has started no process and made no folder.
    """
    pool = sys.modules.get("ccltui.parsers.ingest.worker_pool")
    children: list[BaseProcess] = []
    with contextlib.suppress(AttributeError, NameError):  # loaded by halves
        getattr(pool, "stop_starts", lambda: None)()
        multiprocessing = sys.modules.get("multiprocessing.process")
        children = getattr(multiprocessing, "active_children", list)()
    for child in children:
        child.terminate()
    for child in children:
        child.join(_CHILD_ENDS_S)  # it may write to a folder that is removed below
    folders = sys.modules.get("ccltui.parsers.scratch_folder")
    with contextlib.suppress(AttributeError, NameError):
        getattr(folders, "remove_in_use", lambda: None)()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            stream.flush()
    os._exit(status)


Command = Callable[[Sequence[str]], int]


def run(command: Command, arguments: Sequence[str]) -> int:
    """Run ``command`` and return its exit status; errors are printed in one line.

    ``--debug`` among the arguments adds the traceback, ``--log FILE`` writes a log of the run.
    """
    target = target_of(arguments)
    if target is not None:
        try:
            LOG.open(target, arguments)
        except OSError as error:
            return _print_error(OSError(error.errno, error.strerror, target), arguments)
    with _ended_in_order():
        status = _run(command, arguments)
    LOG.add(f"exit status {status}")
    LOG.close()
    return status


def _run(command: Command, arguments: Sequence[str]) -> int:
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
        if status == exit_codes.INPUT:  # printed already
            return status
        return _print_error(error, arguments)
    return status


class _TerminatedError(SystemExit):
    """A signal asks this process to end; like ctrl+c it passes every handler of errors."""


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that processes and folders are cleaned up.

    Python would end at once. A second signal does. Signals that are ignored (nohup) or handled
    already, as by the screen of the explorer, stay as they are.
    """
    before: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        before = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]
    for one in before:
        signal.signal(one, _terminate)
    previous = raise_lost_signals()
    try:
        yield
    finally:
        sys.unraisablehook = previous
        for one in before:
            if signal.getsignal(one) is _terminate:
                signal.signal(one, signal.SIG_DFL)


_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _terminate(number: int, _: FrameType | None) -> None:
    for one in _ENDING:
        signal.signal(one, signal.SIG_DFL)
    if _is_importing("numpy"):
        os.write(2, f"ccltui: ended by {signal.Signals(number).name}\n".encode())
        end_at_once(128 + number)
    raise _TerminatedError(128 + number)


def _is_importing(name: str) -> bool:
    """Return whether a module is imported by halves.

    An exception amid the import of numpy became an ImportError in 3 % of trials, and its compiled
    modules do not survive one that comes while they are set up.
    """
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


@contextlib.contextmanager
def stoppable(*signals: signal.Signals) -> Iterator[Callable[[], bool]]:
    """Turn the first of ``signals`` into a request to stop; the second interrupts as usual.

    Yields a function that returns whether a stop was requested. Without ``signals`` it never is.
    """
    requested = False

    def on_signal(_signal: int, _frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    before = {number: signal.signal(number, on_signal) for number in signals}
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def finish(status: int) -> int:
    """Exit at once if other threads are still running, else return ``status``.

    Python would wait for the threads at exit, and computing a metric of a large job takes long.
    """
    if threading.active_count() > 1:
        end_at_once(status)
    return status


def _guarded(command: Command, arguments: Sequence[str]) -> int:
    try:
        return command(arguments)
    except _TerminatedError as stop:
        number = signal.Signals(int(stop.code or 0) - 128)
        print_message(f"ended by {number.name}")
        return 128 + number
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
        return _print_error(error, arguments)


def _print_error(error: Exception, arguments: Sequence[str]) -> int:
    # Imported here: not needed for --help.
    from ccltui.parsers.errors import GrammarError, TraceError  # noqa: PLC0415

    LOG.add_traceback(error)
    if isinstance(error, GrammarError):
        print_message(str(error))
        return exit_codes.USAGE
    if isinstance(error, TraceError):
        print_message(str(error))
    elif isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("ccltui"):
        # A bare Python, or one in which pip was told to install no requirements.
        print_message(f"{error.name} is not installed; ccltui doctor --environment lists what is")
    elif _is_of_memory(error):
        print_message(f"not enough memory ({' '.join(str(error).split()) or 'MemoryError'})")
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        print_message(f"{place}{error.strerror or error}")
    else:
        text = f"{type(error).__name__}: {error}"
        # Imported here: no run but a defective one needs it.
        from ccltui.report.crash_report import write_crash_report  # noqa: PLC0415

        debug = "--debug" in arguments
        report = write_crash_report(error, arguments, with_content=debug)
        enclosed = "" if report is None else f" with {report}"
        where = "" if debug else "; --debug shows where"
        print_message(f"internal error: {text}{where}, please report it{enclosed}")
    return exit_codes.INPUT


def _is_of_memory(error: Exception) -> bool:
    """Return whether memory ran out; where it does while a library is loaded, the import fails."""
    unmapped = isinstance(error, ImportError) and "failed to map segment" in str(error)
    return isinstance(error, MemoryError) or unmapped


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush succeeds."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
