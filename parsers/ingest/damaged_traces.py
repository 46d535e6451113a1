"""Files that are named like the traces of a capture but hold nothing that tells what they are."""

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
    """What failed unread: files of no known kind that are named as the traces but for a number.

    A rank that was killed while it wrote leaves an empty file, or the first bytes of one: nothing
    in it says that it is a trace, but its name does. Numbers that all traces of the capture have
    in common, as that of an iteration, it must have too; beside a single trace all but the last.
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
    """A path without its numbers, and these."""
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
