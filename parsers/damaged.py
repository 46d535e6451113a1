"""Files that are named like the traces of a capture but hold nothing that tells what they are."""

from __future__ import annotations

import re
from typing import Final

from parsers.found import Capture, Discovery, FoundFile

_COMPRESSED: Final = re.compile(r"\.(?:gz|zst)$")
_NUMBER: Final = re.compile(r"\d+")


def damaged_traces(discovery: Discovery, capture: Capture) -> tuple[FoundFile, ...]:
    """Files without a known beginning whose paths differ from those of traces in numbers alone.

    A rank that was killed while it wrote leaves an empty file, or the first bytes of one: nothing
    in it says that it is a trace, but its name does.
    """
    names = {_unnumbered(found.path) for found in capture.files}
    return tuple(
        found
        for found in discovery.files
        if found.kind == "unknown"
        and found.problem is not None
        and found.duplicate_of is None
        and _unnumbered(found.path) in names
    )


def _unnumbered(path: str) -> str:
    return _NUMBER.sub("#", _COMPRESSED.sub("", path))
