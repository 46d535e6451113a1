"""Exit status of ``ccltui`` and ``ccl-metrics``.

When several apply, the first of ALERT, INTERRUPTED, INPUT, GATE, REFUSED wins.
"""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Every metric that was named has a value, ok or partial, and no gate tripped.

Standard error states which values are partial, and why.
"""

INPUT: Final = 1
"""The input, or for lack of resources a part of it, could not be read; or an internal error.

A part: a file that cannot be opened, or whose columns cannot be stored, for lack of disk space,
memory or descriptors. Results of the other files are printed. Damaged files make numbers partial.
"""

USAGE: Final = 2
"""The command line is wrong; nothing was computed."""

REFUSED: Final = 3
"""A metric named on the command line, or a gated value, has no value; the rest is printed.

The metric is unavailable, or partial without a number. A metric whose status is ok counts as
answered even if its value is null.

``explain``: nothing is left of what its options select.

``--metric all`` is refused only when every metric is unavailable.
"""

GATE: Final = 4
"""A ``--fail-if`` condition holds, or ``card lint`` found an error."""

ALERT: Final = 5
"""An ``--alert`` condition became true while ``--follow`` ran, however that ended.

``--follow`` is ended by ctrl+c or SIGTERM as a rule: without an alert its status is that of the
last state.
"""

INTERRUPTED: Final = 130
"""Stopped by ctrl+c; results of what was loaded until then may have been printed."""

BROKEN_PIPE: Final = 141
"""The reader of the output closed it, as with ``| head``."""

MEANINGS: Final = (
    (OK, "every metric that was named has a value, ok or partial, and no gate tripped"),
    (
        INPUT,
        "the input, or for lack of resources a part of it, could not be read; or an internal error",
    ),
    (USAGE, "the command line is wrong; nothing was computed"),
    (
        REFUSED,
        "a metric named on the command line, or a gated value, has no value; the rest is printed, "
        "or nothing is left of what the options of explain select",
    ),
    (GATE, "a --fail-if condition holds, or card lint found an error"),
    (ALERT, "an --alert condition became true while --follow ran"),
    (
        INTERRUPTED,
        "stopped by ctrl+c; results of what was loaded until then may have been printed",
    ),
    (BROKEN_PIPE, "the reader of the output closed it"),
)


def worst(*codes: int) -> int:
    """Exit status of a run in which all ``codes`` occurred."""
    order = (INTERRUPTED, INPUT, GATE, REFUSED)
    return next((code for code in order if code in codes), OK)
