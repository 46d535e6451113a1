"""Objects that other installed packages add: find them by entry points, load and check them.

Entry points of other packages, by group; nothing of a package is imported before it is used.

`importlib.metadata` takes 30 ms to import and to read every distribution, half of what a command
takes to start. So the files ``entry_points.txt`` are searched for the name of the group first,
which takes 1 ms, and that is all where no plug-in is installed. This module imports the standard
library only, and no dataclasses, whose import takes as long as ``--version`` in all:
``doctor --environment`` works where nothing else is installed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, NamedTuple

from ccltui.parsers.safe_text import safe_text

METRICS: Final = "ccltui.metrics"
FORMATS: Final = "ccltui.formats"
PANES: Final = "ccltui.panes"
WRITERS: Final = "ccltui.writers"
GROUPS: Final = {METRICS: "metric", FORMATS: "format", PANES: "pane", WRITERS: "writer"}
"""Entry-point groups, and what an entry of each adds."""
_FACTS: Final = (".dist-info", ".egg-info")
_LONGEST: Final = 300


class PlugIn(NamedTuple):
    """One entry of an installed package; ``distribution`` is its name and version."""

    group: str
    name: str
    value: str
    distribution: str
    load: Callable[[], Any]

    def skipped(self, reason: str) -> Skipped:
        """Return that this entry is not used, with the reason."""
        return Skipped(GROUPS[self.group], self.name, reason, self.distribution)


class Skipped(NamedTuple):
    """A plug-in that is not used; ``distribution`` is "" for a function in a file."""

    kind: str
    name: str
    reason: str
    distribution: str = ""

    @property
    def text(self) -> str:
        """One line that names the plug-in, its distribution and the reason."""
        origin = f" of {self.distribution}" if self.distribution else ""
        line = f"{self.kind} plug-in {self.name}{origin} is skipped: {self.reason}"
        return safe_text(" ".join(line.split()))[:_LONGEST]


def installed(group: str) -> tuple[PlugIn, ...]:
    """Return the entries of a group by name; none of them is imported."""
    return _installed(group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> tuple[PlugIn, ...]:
    if not _mentioned(group, path):
        return ()
    from importlib.metadata import distributions  # noqa: PLC0415  (see the first lines)

    found: dict[tuple[str, str], PlugIn] = {}
    seen: set[str] = set()
    for one in distributions():
        with contextlib.suppress(Exception):  # left over from an install that was interrupted
            name = str(one.metadata["Name"])
            if name in seen:  # another copy, further on the path, is not what is imported
                continue
            seen.add(name)
            for entry in one.entry_points:
                if entry.group == group:
                    shown = safe_text(f"{name} {one.version}")
                    plug_in = PlugIn(group, entry.name, entry.value, shown, entry.load)
                    found.setdefault((entry.name, entry.value), plug_in)
    return tuple(found[key] for key in sorted(found))


def _mentioned(group: str, path: tuple[str, ...]) -> bool:
    """Return whether a distribution on the path may have entries of a group."""
    wanted = f"[{group}]".encode()
    return any(wanted in text for place in path for text in _entry_points(place))


@cache
def _entry_points(place: str) -> tuple[bytes, ...]:
    """Return the entry points of every distribution in one directory of the search path."""
    if place.endswith((".zip", ".egg")) and os.path.isfile(place):  # noqa: PTH113
        return (b"".join(f"[{group}]".encode() for group in GROUPS),)  # importlib looks inside
    texts: list[bytes] = []
    with contextlib.suppress(OSError), os.scandir(place or os.curdir) as entries:
        for entry in entries:
            if entry.name.endswith(_FACTS):
                texts += _content(f"{entry.path}/entry_points.txt")
    return tuple(texts)


def _content(path: str) -> list[bytes]:
    """Return the bytes of a file as the only item; none where there is no file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123  (pathlib is slow)
        return [file.read()]
    return []


def by_distribution() -> dict[str, list[PlugIn]]:
    """Return the entries of all groups by distribution."""
    found: dict[str, list[PlugIn]] = {}
    for group in GROUPS:
        for one in installed(group):
            found.setdefault(one.distribution, []).append(one)
    return dict(sorted(found.items()))


def contents(plug_ins: Iterable[PlugIn]) -> str:
    """Return what entries add, in words: ``metrics a, b; format c``."""
    names: dict[str, list[str]] = {}
    for one in plug_ins:
        names.setdefault(GROUPS[one.group], []).append(safe_text(one.name))
    texts = (f"{kind}{'s' * (len(of) > 1)} {', '.join(of)}" for kind, of in names.items())
    return "; ".join(texts)


def loaded(plug_in: PlugIn) -> Any | Skipped:
    """Import the object of an entry; whatever fails, also an exit, is a reason to skip it.

    What its modules print on standard output while they are imported is discarded: it would be
    mixed with the report.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return plug_in.load()
    except (Exception, SystemExit) as error:
        return plug_in.skipped(f"{plug_in.value}: {reason_of(error)}")


def reason_of(error: BaseException) -> str:
    """Return type and message of an error of a plug-in, in one line."""
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return safe_text(" ".join(text.split()))[:_LONGEST]
