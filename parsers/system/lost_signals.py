"""Raise the exception of a signal once more where Python has lost it.

Python prints and forgets what is raised in callbacks of weak references, of which every import has
some, and in finalizers. A signal that comes then would end nothing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

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
