"""System calls that take long, and signals that are lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from ccltui.parsers.discovery.walk import each, each_in_turn


def test_calls_that_wait_overlap_and_keep_their_order() -> None:
    def slow(number: int) -> int:
        time.sleep(0.005)
        return number * 2

    begun = time.perf_counter()

    assert each(slow, range(600)) == [number * 2 for number in range(600)]

    assert time.perf_counter() - begun < 600 * 0.005 / 2


def test_calls_that_do_not_wait_stay_in_this_thread() -> None:
    threads = set(each(lambda _: threading.get_ident(), range(1000)))

    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("wait_s", [0, 0.002])
def test_an_exception_is_raised_in_its_place(wait_s: float) -> None:
    def fails(number: int) -> int:
        time.sleep(wait_s)
        return 1 // (number - 100)

    found = each_in_turn(fails, range(200))

    assert [next(found) for _ in range(100)] == [-1] * 100
    with pytest.raises(ZeroDivisionError):
        next(found)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 264, 265])
def test_every_item_is_called_once(count: int) -> None:
    assert each(lambda number: number, iter(range(count))) == list(range(count))


# A callback of a weak reference, during which a signal comes.
LOSING = """
import signal, sys, time, weakref
from ccltui.parsers.errors import raise_lost_signals

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
