"""``ccltui doctor``: list and check the files of a trace directory, or check this machine."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadedJob, LoadOptions, discover_job, load_job
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.numbers import count, decimal_size
from ccltui.parsers.safe_text import listed
from ccltui.report.output import print_message, require_target, write_report
from ccltui.report.text_layout import table, text_bytes

if TYPE_CHECKING:
    from ccltui.doctor.environment_checks import EnvironmentFinding
    from ccltui.doctor.trace_checks import Finding
    from ccltui.metrics.view.viewer_losses import ViewerLoss
    from ccltui.parsers.columns import Note
    from ccltui.parsers.discovery.discover import FoundFile
    from ccltui.parsers.job import Job
    from ccltui.report.documents import DoctorFile, DoctorNote

_DESCRIPTION = """\
List every file of a trace directory with its detected kind, read the traces, check whether the
metrics can be computed from them, and print what to do where they cannot. With --environment, check
what this machine offers to ccltui; no directory is needed, and nothing is read."""
FILE_HEADER = ("path", "kind", "rank", "rank source", "capture", "size", "problem")
CAPTURE_HEADER = ("capture", "files", "ranks", "complete", "opened")
CHECK_HEADER = ("check", "state", "finding")
_PATHS_LISTED = 3
FIX_HEADER = ("check", "what to do")
CHECK_NAMES = ("check", "state", "message", "fix")
VIEWER_HEADER = ("your viewer", "hides", "here", "reported in")
VIEWER_NAMES = ("viewer", "hides", "count", "total", "unit", "source")
NOTE_HEADER = ("note", "where", "count", "byte", "message")
_FORMATS = ("table", "json")


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui doctor``."""
    result = args.of_verb("doctor", _DESCRIPTION)
    result.add_argument("trace", nargs="?", metavar="DIR", help="trace directory, or one file")
    result.add_argument(
        "--environment",
        action="store_true",
        help="check this machine instead of a directory: packages, compiled modules and how to get "
        "them, terminal, cache, limits",
    )
    args.add_output(result, _FORMATS, "table")
    result.add_argument(
        "--files-only", action="store_true", help="list the files and read no trace"
    )
    result.add_argument(
        "--bundle",
        metavar="FILE.zip",
        help="write a new file to attach to a report of a mistake: the checks of this machine and "
        "reports of crashes; with DIR also kinds and sizes of its files. No text of traces and no "
        "names are in it",
    )
    result.add_argument(
        "--with-names",
        action="store_true",
        help="with --bundle DIR: add names of files and what is wrong with them",
    )
    return args.completed(result, args.add_capture, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui doctor`` with its arguments and return the exit status.

    Findings do not change the status, because they are the requested output. Internal errors do,
    and files that could not be read for lack of resources, as they do for ``--metric``.
    """
    options = parser().parse_args(arguments)
    args.settle_format(options, _FORMATS, "table")
    require_target(options.output)
    if options.with_names and (options.bundle is None or options.trace is None):
        raise GrammarError("--with-names needs --bundle FILE.zip and a directory")
    if options.bundle is not None:
        return _bundle(options)
    if options.environment:
        return _environment(options)
    if options.trace is None:
        raise GrammarError("no trace directory given: ccltui doctor DIR, or --environment")
    loaded = _load(options)
    # Imported here: numpy.
    from ccltui.doctor.trace_checks import answering, side_findings  # noqa: PLC0415
    from ccltui.parsers.found_files import found_instead  # noqa: PLC0415

    job = loaded.job
    nothing_yet = not loaded.complete and not job.ranks  # not read, or stopped at once
    beside = () if options.files_only else side_findings(job)
    findings = (*(() if nothing_yet else _findings(job)), *beside)
    losses = () if options.files_only else _viewer_losses(job)
    write = _json if options.format == "json" else _table
    write_report(write(loaded, findings, losses), options.output)
    if not loaded.complete and not options.files_only:
        return exit_codes.INTERRUPTED
    if not (job.discovery.captures or beside or answering(job)):
        print_message(f"no Kineto trace in {job.path}; found {found_instead(job.discovery.files)}")
        return exit_codes.INPUT
    broken = any(finding.is_internal for finding in findings)
    broken |= any(failure.defect or failure.is_lost for failure in job.failures)
    return exit_codes.INPUT if broken else exit_codes.OK


def _environment(options: argparse.Namespace) -> int:
    if options.trace is not None:
        raise GrammarError("--environment checks this machine: give it no directory")
    from ccltui.doctor.environment_checks import environment_findings  # noqa: PLC0415

    found = environment_findings()
    if options.format == "json":
        rows = [{name: getattr(one, name) for name in CHECK_NAMES} for one in found]
        # The encoder of the standard library: the packages that are checked may be missing.
        document = {"schema_version": 1, "environment": rows}
        write_report(f"{json.dumps(document, indent=2)}\n".encode(), options.output)
        return exit_codes.OK
    lines = [line for block in _check_tables(found) for line in ("", *block)][1:]
    write_report(text_bytes(lines), options.output)
    return exit_codes.OK


def _bundle(options: argparse.Namespace) -> int:
    for name, given in (
        ("--environment", options.environment),
        ("-o", options.output is not None),
        ("--files-only", options.files_only),
    ):
        if given:
            raise GrammarError(f"--bundle writes a file of its own: leave out {name}")
    from ccltui.doctor.environment_checks import bundle_bytes  # noqa: PLC0415
    from ccltui.report.output import write_new_file  # noqa: PLC0415

    job = None
    if options.trace is not None:
        job = discover_job(LoadOptions.of(options.trace, options))
    data, names = bundle_bytes(job, with_names=options.with_names)
    write_new_file(data, Path(options.bundle))
    print_message(f"{options.bundle}: {', '.join(names)}; look through it before you attach it")
    return exit_codes.OK


def _load(options: argparse.Namespace) -> LoadedJob:
    loading = LoadOptions.of(options.trace, options)
    if options.files_only:
        return LoadedJob(discover_job(loading), complete=False)
    return load_job(loading, any_recording=True)


def _findings(job: Job) -> tuple[Finding, ...]:
    from ccltui.doctor import trace_checks  # noqa: PLC0415  (numpy)

    no_trace = not job.ranks and not job.failures
    return trace_checks.without_traces(job) if no_trace else trace_checks.check(job)


def _viewer_losses(job: Job) -> Sequence[ViewerLoss]:
    """Return what other viewers leave out of the traces of a job."""
    from ccltui.metrics.view.job_view import View  # noqa: PLC0415  (numpy)
    from ccltui.metrics.view.viewer_losses import viewer_losses  # noqa: PLC0415  (numpy)

    return viewer_losses(View(job)) if job.ranks else ()


def _table(loaded: LoadedJob, findings: Sequence[Finding], losses: Sequence[ViewerLoss]) -> bytes:
    files = _folded([_file_cells(found, loaded.job) for found in loaded.job.discovery.files])
    align: tuple[Any, ...] = ("left", "left", "right", "left", "left", "right")
    blocks = [table(FILE_HEADER, files, align=align)]
    if len(loaded.job.discovery.captures) > 1:
        blocks.append(table(CAPTURE_HEADER, _capture_cells(loaded)))
    blocks += _check_tables(findings)
    if losses:
        rows_of = [(one.viewer, one.hides, one.here, one.source) for one in losses]
        blocks.append(table(VIEWER_HEADER, rows_of))
    rows = _note_rows(loaded)
    if rows:
        blocks.append(table(NOTE_HEADER, rows, align=("left", "left", "right", "right")))
    lines = [line for block in blocks for line in ("", *block)]
    return text_bytes(lines[1:])


def _check_tables(
    found: Sequence[Finding] | Sequence[EnvironmentFinding],
) -> Iterator[list[str]]:
    """Yield the table of checks, and that of what to do; none without rows."""
    for header, rows in (
        (CHECK_HEADER, [(one.check, one.state, one.message) for one in found]),
        (FIX_HEADER, [(one.check, one.fix) for one in found if one.fix]),
    ):
        if rows:
            yield table(header, rows)


_MOST_ALIKE = 20
"""Files of one kind that belong to no rank and are listed; a folder of ten thousand logs would
otherwise push what the checks found off the screen. JSON lists all."""


def _folded(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows of files; those alike but for path and size are counted beyond the first."""
    kept: list[tuple[str, ...]] = []
    alike: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        _, kind, rank, source, capture, _, problem = row
        key = (kind, source, capture, problem)
        alike[key] += not rank
        if rank or alike[key] <= _MOST_ALIKE:
            kept.append(row)
    for (kind, source, capture, problem), found in alike.items():
        if found > _MOST_ALIKE:
            more = f"… {count(found - _MOST_ALIKE)} more"
            kept.append((more, kind, "", source, capture, "", problem))
    return kept


def _file_cells(found: FoundFile, job: Job) -> tuple[str, ...]:
    from ccltui.parsers.window import ranges_text  # noqa: PLC0415  (as in _note_rows)

    rank, source = _rank_and_source(found, job)
    return (
        found.path,
        found.kind,
        ranges_text(rank) if isinstance(rank, tuple) else "" if rank is None else str(rank),
        source,
        found.capture,
        decimal_size(found.size_bytes),
        _problem(found, job),
    )


def _rank_and_source(found: FoundFile, job: Job) -> tuple[int | tuple[int, ...] | None, str]:
    """Return the rank of a file, the ranks of one that holds several, and where they are from."""
    several = job.ranks_in(found.path)
    if several is None:
        return found.rank, "" if found.rank is None else found.rank_source
    sources = {trace.rank_source for trace in job.ranks if trace.source.path == found.path}
    return several, listed(sorted(sources - {"none"}))


def _capture_cells(loaded: LoadedJob) -> list[tuple[str, ...]]:
    return [
        (
            capture.name,
            str(len(capture.files)),
            str(len(capture.ranks)),
            "yes" if capture.complete else "no",
            "yes" if capture.name == loaded.job.capture.name else "no",
        )
        for capture in loaded.job.discovery.captures
    ]


def _left_out(found: FoundFile, job: Job) -> str:
    """Return why a file that was read does not count, "" where it does."""
    # --environment runs where msgspec, which this module needs, is not installed.
    from ccltui.parsers.found_files import LEFT_OUT, NO_RANK  # noqa: PLC0415

    if job.merged.is_left_out(found.path):
        return LEFT_OUT
    return NO_RANK if job.is_side(found.path) else ""


def _problem(found: FoundFile, job: Job) -> str:
    parts = [f"repeats {found.duplicate_of}"] if found.duplicate_of else []
    parts += [left_out] if (left_out := _left_out(found, job)) else []
    return "; ".join(parts + ([found.problem] if found.problem else []))


def _note_rows(loaded: LoadedJob) -> list[tuple[str, ...]]:
    """Rows of the notes of the job and of its files, one for files with the same note."""
    from msgspec import structs  # noqa: PLC0415  (a bare Python checks its environment)

    from ccltui.parsers.columns import note_groups  # noqa: PLC0415  (as above)

    rows = [_note_cells("", note) for note in loaded.job.notes]
    for group in note_groups(loaded.job.ranks):
        paths = list(dict.fromkeys(trace.source.path for trace in group.traces))
        note = structs.replace(group.note, count=group.count, message=group.message)
        rows.append(_note_cells(listed(paths, _PATHS_LISTED), note))
    return rows


def _note_cells(path: str, note: Note) -> tuple[str, ...]:
    place = "" if note.offset is None else f"{note.offset:,}"
    return (note.code, path, f"{note.count:,}", place, note.message)


def _json(loaded: LoadedJob, findings: Sequence[Finding], losses: Sequence[ViewerLoss]) -> bytes:
    from ccltui.report.json_document import SCHEMA_VERSION  # noqa: PLC0415  (msgspec)
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415  (orjson)

    job = loaded.job
    files: list[DoctorFile] = [
        {
            "path": found.path,
            "kind": found.kind,
            "rank": found.rank if job.ranks_in(found.path) is None else None,
            "rank_source": _rank_and_source(found, job)[1] or found.rank_source,
            "capture": found.capture,
            "size_bytes": found.size_bytes,
            "duplicate_of": found.duplicate_of,
            "problem": found.problem or _left_out(found, job) or None,
        }
        for found in job.discovery.files
    ]
    notes: list[DoctorNote] = [
        {
            "code": note.code,
            "where": path or None,
            "count": note.count,
            "offset": note.offset,
            "message": note.message,
        }
        for path, note in (
            *(("", note) for note in job.notes),
            *((trace.source.path, note) for trace in job.ranks for note in trace.notes),
        )
    ]
    checks = [{name: getattr(finding, name) for name in CHECK_NAMES} for finding in findings]
    document = {
        "schema_version": SCHEMA_VERSION,
        "path": job.path,
        "capture": job.capture.name,
        "captures": [capture.name for capture in job.discovery.captures],
        "files": files,
        "checks": checks,
        "viewers": [{name: getattr(one, name) for name in VIEWER_NAMES} for one in losses],
        "notes": notes,
    }
    return json_bytes(document, indent=True)
