"""Find files that are named like the traces of a capture but have no recognisable content."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ccltui.parsers.format import UNKNOWN
from ccltui.parsers.found_files import Capture, Discovery
from ccltui.parsers.ingest.load_events import Failed

_COMPRESSED: Final = re.compile(r"\.(?:gz|zst)$")
_NUMBER: Final = re.compile(r"(\d+)")


def damaged_traces(discovery: Discovery, capture: Capture) -> tuple[Failed, ...]:
    """Return a failure for each unrecognised file that is named as the traces but for a number.

    A rank that was killed while it wrote leaves an empty file, or the first bytes of one: only
    its name shows that it is a trace. It must have the numbers that all traces of the capture
    have in common, as that of an iteration; where there is one trace, all but the last.
    """
    alike: dict[str, list[list[str]]] = {}
    for found in capture.files:
        shape, numbers = _taken_apart(found.path)
        alike.setdefault(shape, []).append(numbers)
    return tuple(
        Failed(found.path, f"{found.path}: {found.problem}")
        for found in discovery.files
        if found.format is UNKNOWN
        and found.problem is not None
        and found.duplicate_of is None
        and _belongs(found.path, alike)
    )


def _taken_apart(path: str) -> tuple[str, list[str]]:
    """Return a path without its numbers, and the numbers."""
    parts = _NUMBER.split(_COMPRESSED.sub("", path))
    return "#".join(parts[::2]), parts[1::2]


def _belongs(path: str, alike: dict[str, list[list[str]]]) -> bool:
    shape, numbers = _taken_apart(path)
    traces = alike.get(shape)
    return traces is not None and all(
        _may_be(number, [trace[place] for trace in traces], is_last=place == len(numbers) - 1)
        for place, number in enumerate(numbers)
    )


def _may_be(number: str, known: Sequence[str], *, is_last: bool) -> bool:
    is_fixed = len(set(known)) == 1 and (len(known) > 1 or not is_last)
    return not is_fixed or number == known[0]
