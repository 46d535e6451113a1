"""Exceptions of signal handlers that Python loses are raised again."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A callback of a weak reference, during which a signal comes.
LOSING = """
import signal, sys, time, weakref
from ccltui.parsers.system.lost_signals import raise_lost_signals

class Target: pass

def callback(_):
    signal.raise_signal({number})
    for _ in range(100): pass  # the handler runs here

def handler(number, frame):
    raise {error}

signal.signal({number}, handler)
raise_lost_signals()
target = Target()
reference = weakref.ref(target, callback)
try:
    del target
    time.sleep(20)
    print("went on")
except BaseException as error:
    print(repr(error))
"""


@pytest.mark.parametrize("error", ["KeyboardInterrupt()", "SystemExit(143)"])
def test_a_signal_amid_a_callback_still_ends_the_program(error: str) -> None:
    code = LOSING.format(number="signal.SIGINT", error=error)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.strip() == error
    assert done.stderr == ""


def test_other_errors_are_printed_as_before() -> None:
    code = LOSING.format(number="signal.SIGINT", error="ValueError(3)").replace("(20)", "(0.1)")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.strip() == "went on"
    assert "Exception ignored" in done.stderr
    assert "ValueError: 3" in done.stderr
