"""Formats of other packages: checked when they are loaded, and contained when they are used."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import SOURCES, UNKNOWN, Format, Match, Rule
from ccltui.parsers.plug_ins.installed import (
    FORMATS,
    PlugIn,
    Skipped,
    installed,
    loaded,
    reason_of,
)

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_CALLED: Final = (
    *("read", "preview", "read_record", "add_companion", "info_at_end", "is_finished"),
    *("unfinished", "to_sqlite"),
)
"""Functions of a format besides its rules."""


class PluggedFormats(Struct, frozen=True):
    """Formats that are used, entries that are not, and rules that failed since."""

    formats: tuple[Format, ...]
    skipped: tuple[Skipped, ...]
    failed: dict[str, Skipped]

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each entry that is not used, and for each format with a failed rule."""
        return tuple(one.text for one in (*self.skipped, *self.failed.values()))


def plugged_formats(built_in: Sequence[Format]) -> PluggedFormats:
    """Load the formats of other packages, besides those of ``built_in``."""
    return _plugged(tuple(built_in), installed(FORMATS))


@cache
def _plugged(built_in: tuple[Format, ...], entries: tuple[PlugIn, ...]) -> PluggedFormats:
    used: list[Format] = []
    skipped: list[Skipped] = []
    failed: dict[str, Skipped] = {}
    for entry in entries:
        found = loaded(entry)
        if isinstance(found, Skipped):
            skipped.append(found)
        elif problem := _problem(found, (*built_in, *used)):
            skipped.append(entry.skipped(f"{entry.value} {problem}"))
        else:
            used.append(_contained(found, entry, failed))
    return PluggedFormats(tuple(used), tuple(skipped), failed)


def _problem(found: object, others: Sequence[Format]) -> str:
    """Return why an object cannot be used as a format; "" where it can."""
    if not isinstance(found, Format):
        return f"is a {type(found).__name__}, not a Format"
    if not isinstance(found.kind, str) or not _KIND.fullmatch(found.kind):
        return f"has the kind {found.kind!r}: letters a-z, digits and _ are allowed"
    if found.kind in {UNKNOWN.kind, *(one.kind for one in others)}:
        return f"has the kind {found.kind!r}, which is already taken"
    if not found.sniff or not all(isinstance(rule, Rule) for rule in found.sniff):
        return "has no rules that recognise its files"
    if found.read is None:
        return ""
    if found.source not in SOURCES or found.version < 1 or not found.family:
        return f"has a reader, so it needs a source ({', '.join(SOURCES)}), version and family"
    if found.family in {one.family for one in others}:
        return f"has the family {found.family!r}, which is already taken"
    return ""


def _contained(found: Format, entry: PlugIn, failed: dict[str, Skipped]) -> Format:
    """Return a format whose functions raise TraceError alone, and whose rules raise nothing."""
    called = {name: getattr(found, name) for name in _CALLED}
    changes: dict[str, Any] = {
        name: _named_errors(function, entry)
        for name, function in called.items()
        if function is not None
    }
    # Stored columns are found by file and version: neither those of another format of the same file
    # nor those of an older release of the package may be taken for these.
    identity = f"{found.kind} {found.version} {entry.distribution}"
    changes["version"] = zlib.crc32(identity.encode()) if found.read else 0
    rules = tuple(Rule(rule.priority, _silent(rule.test, entry, failed)) for rule in found.sniff)
    return dataclasses.replace(found, sniff=rules, **changes)


def _named_errors(function: Callable[..., Any], entry: PlugIn) -> Callable[..., Any]:
    """Return a function whose unforeseen errors name the distribution; others stay."""

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TraceError, OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            shown = options.get("shown")
            why = f"the format plug-in {entry.name} of {entry.distribution} failed: "
            raise TraceError(why + reason_of(error), path=shown) from error

    return call


def _silent(
    test: Callable[[FileSample], Match | None], entry: PlugIn, failed: dict[str, Skipped]
) -> Callable[[FileSample], Match | None]:
    """Return a rule that matches nothing where it fails: other formats still have their files."""

    def matched(sample: FileSample) -> Match | None:
        try:
            found = test(sample)
            if found is None or isinstance(found, Match):
                return found
            raise TypeError(f"a rule returned a {type(found).__name__}, not a Match or None")
        except (Exception, SystemExit) as error:
            failed[entry.name] = entry.skipped(reason_of(error))
            return None

    return matched
