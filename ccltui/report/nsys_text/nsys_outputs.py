"""Pair reports with formats and outputs as ``nsys stats`` does, and write each pair.

The first report takes the first format and the first output, the second the second ones, and so
on; the last of a shorter list is repeated. A further format or output without a report of its own
repeats the last report.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from ccltui.metrics.nsys_reports import Report
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.report.nsys_text.nsys_writers import EXTENSIONS, Layout, parse_layout, write_reports
from ccltui.report.output import check_target, print_message, require_target, write_report

CONSOLE: Final = "-"
DEFAULT_BASE: Final = "."
_COMMAND: Final = "@"
_DEFAULT: Final = "."  # the default format of an output
_SUFFIXES: Final = tuple(sorted({f".{one}" for one in EXTENSIONS.values()}))
# Reversed: where two formats share an extension, the first of EXTENSIONS is its format.
_OF_SUFFIX: Final = {f".{EXTENSIONS[name]}": name for name in reversed(tuple(EXTENSIONS))}

T = TypeVar("T")


class Paired(Struct, frozen=True):
    """One report with its format and its output; ``label`` is its name with its arguments."""

    label: str
    report: Report
    layout: Layout
    output: str


def split_list(texts: Sequence[str]) -> list[str]:
    """Split comma-separated lists; a command keeps its commas."""
    return [
        part
        for text in texts
        for part in ([text] if text.startswith(_COMMAND) else text.split(","))
    ]


def are_paired(formats: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether each report has a format and an output of its own.

    One format to the console or to one named file writes all reports together.
    """
    return len(formats) > 1 or len(outputs) > 1 or any(map(_is_special, outputs))


def _is_special(output: str) -> bool:
    """Whether an output is a command or a base of names: all but a file and the console."""
    return output == DEFAULT_BASE or output.startswith(_COMMAND) or not _is_file(output)


def check_outputs(outputs: Sequence[str]) -> None:
    """Refuse outputs that cannot be written, before any work is done. Raises GrammarError."""
    for output in outputs:
        if output != DEFAULT_BASE and not output.startswith(_COMMAND):
            require_target(output if _is_file(output) else f"{output}_")


def _is_file(output: str) -> bool:
    # Files in /dev/shm are as any other; /dev/stdout may be one, and is no base of names.
    is_device = output.startswith("/dev/") and not output.startswith("/dev/shm/")
    return output == CONSOLE or is_device or output.endswith(_SUFFIXES)


def layout_for(format_text: str, output: str, time_unit: str) -> Layout:
    """Return the layout of a format; ``.`` is that of the output. Raises GrammarError.

    The format of an output is that of a file's extension, ``column`` on the console, else ``csv``.
    """
    if format_text != _DEFAULT:
        return parse_layout(format_text, time_unit)
    if output == CONSOLE:
        return parse_layout("column", time_unit)
    suffix = Path(output).suffix if _is_file(output) else ""
    return parse_layout(_OF_SUFFIX.get(suffix, "csv"), time_unit)


def pair(
    reports: Sequence[tuple[str, Report]],
    formats: Sequence[str],
    outputs: Sequence[str],
    time_unit: str,
) -> list[Paired]:
    """Pair reports, by label, with formats and outputs. Raises GrammarError."""
    count = max(len(reports), len(formats), len(outputs)) if reports else 0
    shown = _repeated(reports, count)
    targets = _repeated(outputs or [CONSOLE], count)
    named = [one for one in targets if _is_file(one) and one != CONSOLE]
    twice = next((one for one in named if named.count(one) > 1), None)
    if twice is not None:
        raise GrammarError(
            f"{twice} is one file for several reports: give a name without extension"
        )
    layouts = map(layout_for, _repeated(formats or [_DEFAULT], count), targets, [time_unit] * count)
    return [
        Paired(label, report, layout, target)
        for (label, report), layout, target in zip(shown, layouts, targets, strict=True)
    ]


def _repeated(items: Sequence[T], count: int) -> list[T]:
    return [*items, *[items[-1]] * (count - len(items))] if items else []


def target_of(one: Paired, source: Path) -> str:
    """Return the file of an output: ``<base>_<report and arguments>.<extension>``.

    The base of ``.`` is the path of the capture without its extension.
    """
    if _is_file(one.output):
        return one.output
    base = str(source.with_suffix("")) if one.output == DEFAULT_BASE else one.output
    label = one.label.replace(":", "_").replace("=", "_")
    return f"{base}_{label}.{EXTENSIONS[one.layout.name]}"


def write_pairs(pairs: Sequence[Paired], source: Path, *, overwrite: bool) -> bool:
    """Write each report that has rows to its output; return whether all could be written.

    Raises:
        TraceError: A command cannot be run.
        OSError: A file cannot be written.
    """
    complete = True
    for one in pairs:
        if not one.report.columns:
            continue
        data = write_reports([("", [one.report])], one.layout)
        if one.output.startswith(_COMMAND):
            complete &= _piped(data, one.output.removeprefix(_COMMAND))
            continue
        target = target_of(one, source)
        is_new = target != CONSOLE and not _is_file(one.output)
        problem = check_target(target)
        if problem is None and is_new and not overwrite and Path(target).exists():
            problem = f"{target} exists: --force-overwrite replaces it"
        if problem is not None:
            print_message(problem)
            complete = False
            continue
        write_report(data, target)
        if is_new:
            print_message(f"wrote {target}")
    return complete


def _piped(data: bytes, command: str) -> bool:
    """Run a command with a report as its input, without a shell; words are split as by one."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise TraceError(f"--output @{command[:60]}: {error}") from error
    if not words:
        raise TraceError("--output @: a command is missing")
    try:
        done = subprocess.run(words, input=data, check=False)
    except OSError as error:
        raise TraceError(f"--output @{words[0][:60]}: {error.strerror}") from error
    write_report(b"\n", None)  # nsys prints an empty line after the output of a command
    return done.returncode in (0, 1)  # 1: grep found nothing
