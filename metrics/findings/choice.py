"""The finding on a folder with several recordings that are not ranks of one job."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Finding, Recording
from ccltui.metrics.findings.words import short_name
from ccltui.parsers.numbers import counted


def choice_of(rows: Sequence[Recording], opened: str) -> Finding:
    """Return what the recordings are; ``opened`` is the name of the one that is described."""
    main = next(row for row in rows if row.name == opened)
    number = counted(len(rows), "separate recording")
    return Finding(
        kind="choice",
        text=f"{number} are here; the largest, {short_name(main.name)}: {main.finding}",
        more="The findings below are those of that one.",
        sure=Sure(what="high"),
        do="Open another one with --capture NAME; compare two with ccltui diff.",
        recordings=tuple(rows),
    )
