"""Errors that a reader of user files may raise, each with where and what to do.

Also the exception of a signal, raised once more where Python has lost it: Python prints and forgets
what is raised in callbacks of weak references, of which every import has some, and in finalizers. A
signal that comes then would end nothing.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType


class TraceError(ValueError):
    """A file or directory cannot be used; one line says which, where and why."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        offset: int | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        """Keep the place: byte ``offset``, or 1-based ``line`` and ``column``."""
        self.message = message
        self.path = None if path is None else str(path)
        self.offset = offset
        self.line = line
        self.column = column
        super().__init__(str(self))

    def __str__(self) -> str:
        place = "" if self.path is None else self.path
        if self.line is not None:
            place += f":{self.line}" + ("" if self.column is None else f":{self.column}")
        elif self.offset is not None:
            place += f" at byte {self.offset:,}"
        return f"{place}: {self.message}" if place else self.message


def is_of_machine(error: BaseException) -> bool:
    """Whether the system refused an operation, rather than the content of a file being unusable."""
    return isinstance(error, OSError) or isinstance(error.__cause__, OSError | MemoryError)


class NotFoundError(TraceError, FileNotFoundError):
    """The path that was asked for does not exist, or holds nothing that can be read."""

    __str__ = TraceError.__str__


class GrammarError(TraceError):
    """Text typed by the user (a window, a rank list, a map) does not follow its grammar."""


class CardError(TraceError):
    """A workload card is not valid YAML or not a card."""


class CancelledError(TraceError):
    """The user stopped the work; finished results stay."""


def raise_if(cancelled: Callable[[], bool] | None, path: Path | str | None = None) -> None:
    """Raise CancelledError where ``cancelled`` is given and returns true."""
    if cancelled is not None and cancelled():
        raise CancelledError("reading was stopped", path=path)


class DamagedColumnsError(TraceError):
    """Stored columns are not as they were written, and cannot be read from the trace again."""


class InternalError(TraceError):
    """A reader failed on a file in an unforeseen way: a defect of the reader."""


@contextlib.contextmanager
def contained(path: Path | str | None) -> Iterator[None]:
    """Turn every failure to read a file into a TraceError of one line about it.

    One file must not fail a job of many, whatever its reader raises. Errors of the system keep
    their reason; every unforeseen exception becomes an InternalError.
    """
    try:
        yield
    except TraceError:
        raise
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror or error})", path=path) from error
    except MemoryError as error:
        raise TraceError("cannot be read (not enough memory)", path=path) from error
    except Exception as error:
        raise InternalError(internal_error(error), path=path) from error


def defect_of(error: TraceError) -> str:
    """Traceback of an InternalError for a bug report; "" where the file is at fault."""
    return "".join(traceback.format_exception(error)) if isinstance(error, InternalError) else ""


_LONGEST_REASON = 200


def internal_error(error: BaseException) -> str:
    """Return one line about an unforeseen error."""
    why = " ".join(str(error).split())[:_LONGEST_REASON]
    text = f"{type(error).__name__}: {why}" if why else type(error).__name__
    return f"internal error: {text}; please report it"


Hook = Callable[["sys.UnraisableHookArgs"], object]

_AGAIN_S = 0.01
"""Seconds until the exception is raised again, when the callback has ended."""


def raise_lost_signals() -> Hook:
    """Raise KeyboardInterrupt and SystemExit again when they are lost; return the hook before."""
    previous = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
            _raise_soon(lost.exc_value)
        else:
            previous(lost)

    sys.unraisablehook = hook
    return previous


def _raise_soon(error: BaseException) -> None:
    """Raise ``error`` by a timer. Handlers of signals run in the main thread, as this does."""

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise error.with_traceback(None)

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
