"""What the exit status of ``ccltui`` and ``ccl-metrics`` means: the one place.

When several apply, the first of INTERRUPTED, INPUT, GATE, REFUSED wins.
"""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Every metric is ok or partial, and no gate tripped."""

INPUT: Final = 1
"""The input, or for lack of resources a part of it, could not be read; or an internal error.

A part: a file that cannot be opened, or whose columns cannot be kept, for lack of room, memory or
descriptors. What could be computed is printed. Files that are damaged make numbers partial.
"""

USAGE: Final = 2
"""The command line is wrong; nothing was computed."""

REFUSED: Final = 3
"""A metric asked for by name, or a gated value, has no value; the rest is printed.

That is: it is unavailable, or partial without a number. Where it is ok, nothing to report is a
report.

``--metric all`` asks for what the traces can tell: it is refused when that is nothing.
"""

GATE: Final = 4
"""A ``--fail-if`` condition holds, or ``card lint`` found an error."""

INTERRUPTED: Final = 130
"""Stopped by ctrl+c; what was loaded until then may have been printed."""

BROKEN_PIPE: Final = 141
"""The reader of our output went away, as with ``| head``."""

MEANINGS: Final = (
    (OK, "every metric is ok or partial, and no gate tripped"),
    (
        INPUT,
        "the input, or for lack of resources a part of it, could not be read; or an internal error",
    ),
    (USAGE, "the command line is wrong; nothing was computed"),
    (REFUSED, "a metric asked for by name, or a gated value, has no value; the rest is printed"),
    (GATE, "a --fail-if condition holds, or card lint found an error"),
    (INTERRUPTED, "stopped by ctrl+c; what was loaded until then may have been printed"),
    (BROKEN_PIPE, "the reader of the output went away"),
)


def worst(*codes: int) -> int:
    """The one exit status of a run in which all ``codes`` occurred."""
    order = (INTERRUPTED, INPUT, GATE, REFUSED)
    return next((code for code in order if code in codes), OK)
