"""Process and thread numbers out of the serialised thread ids of nsys."""

from __future__ import annotations

from typing import Final

from ccltui.parsers.array_types import I64

_PID_BIT: Final = 24
_NUMBER: Final = (1 << _PID_BIT) - 1  # both numbers have 24 bits; the bits above are the machine


def process_ids(threads: I64) -> I64:
    """Return the process of each thread."""
    return (threads >> _PID_BIT) & _NUMBER


def thread_ids(threads: I64) -> I64:
    """Return the number that the operating system gives each thread."""
    return threads & _NUMBER
