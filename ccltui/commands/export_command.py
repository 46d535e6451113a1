"""``ccltui export DIR --to FORMAT``: write a job for other tools."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, job_name, load_job
from ccltui.commands.measure import print_captures
from ccltui.parsers.errors import TraceError
from ccltui.report.output import print_message, streamed, write_report
from ccltui.report.progress import print_written

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_DESCRIPTION = """\
Write the ranks of a job for other tools, all on the corrected clock. perfetto: one trace of all
ranks for Perfetto's viewer, with flows between matched collectives, their lags, and the delays
that ranks caused; perfetto-manifest: the offsets with which Perfetto opens the original files;
parquet and csv: tables of events, collectives, steps and metrics."""
_EPILOG = """\
An existing file is never replaced. A window, steps and ranks limit what is written; events belong
to them by their start."""
_TABLES: Final = ("events", "collectives", "steps", "metrics")


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui export``."""
    result = args.of_verb("export", _DESCRIPTION, _EPILOG)
    result.add_argument("trace", metavar="DIR", help="trace directory, or one trace file")
    result.add_argument("--to", choices=tuple(_WRITERS), required=True, help="format")
    result.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="perfetto: a new file, compressed where it ends in .gz, default NAME.pftrace.gz; "
        "perfetto-manifest: default perfetto_manifest.json; "
        "parquet, csv: a folder, default NAME-parquet or NAME-csv",
    )
    result.add_argument(
        "--table",
        action="append",
        default=[],
        choices=_TABLES,
        help="parquet, csv: write only this table; may be repeated; default: all",
    )
    result.add_argument(
        "--device-only",
        action="store_true",
        help="perfetto: leave out the events of hosts",
    )
    return args.completed(result, args.add_capture, args.add_selection, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui export`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    selection = args.selection_of(options)
    try:
        loaded = load_job(LoadOptions.of(options.trace, options))
    except (TraceError, OSError) as error:
        print_message(str(error))
        return exit_codes.INPUT
    from ccltui.metrics.unavailable import Refusal  # noqa: PLC0415
    from ccltui.metrics.view.job_view import View  # noqa: PLC0415  (numpy)
    from ccltui.metrics.view.provenance import require_traces  # noqa: PLC0415

    for failure in loaded.job.failures:
        print_message(failure.error)
    if not loaded.complete:
        return exit_codes.INTERRUPTED
    view = View(loaded.job, selection)
    try:
        require_traces(view)
    except Refusal as refusal:
        print_message("; ".join(reason.message for reason in refusal.reasons))
        return exit_codes.REFUSED if loaded.job.ranks else exit_codes.INPUT
    if options.iteration is None and options.capture is None:
        print_captures(loaded.job)
    try:
        _WRITERS[options.to](view, options)
    except (OSError, ValueError, ImportError) as error:
        print_message(f"cannot export: {error}")
        return exit_codes.INPUT
    return exit_codes.INPUT if any(one.is_lost for one in loaded.job.failures) else exit_codes.OK


def _perfetto(view: View, options: argparse.Namespace) -> None:
    from ccltui.export.perfetto_trace import (  # noqa: PLC0415
        ALL_GROUPS,
        DEVICE_GROUPS,
        perfetto_trace,
    )

    path = Path(options.output or f"{job_name(options.trace)}.pftrace.gz")
    groups = DEVICE_GROUPS if options.device_only else ALL_GROUPS
    pieces = perfetto_trace(view, groups, progress=print_written)
    with streamed(path) as file:
        if path.suffix == ".gz":
            from isal import igzip  # noqa: PLC0415

            with igzip.IGzipFile(  # type: ignore[no-untyped-call]
                fileobj=file, mode="wb", compresslevel=1
            ) as packed:
                for piece in pieces:
                    packed.write(piece)  # type: ignore[no-untyped-call]
        else:
            for piece in pieces:
                file.write(piece)
    world = max(view.world_size or 0, len(view.job.ranks))
    print_message(f"wrote {path} ({len(view.ranks)} of {world} ranks)")


def _manifest(view: View, options: argparse.Namespace) -> None:
    from ccltui.export.perfetto_trace import manifest  # noqa: PLC0415

    document = manifest(view)
    if options.output == "-":
        write_report(document, None)
        return
    path = Path(options.output or "perfetto_manifest.json")
    with streamed(path) as file:
        file.write(document)
    print_message(
        f"wrote {path}: trace_processor util merge -o merged.tar --manifest {path} FILES packs it"
    )


def _tables(view: View, options: argparse.Namespace) -> None:
    from ccltui.export.tables import write_tables  # noqa: PLC0415

    folder = Path(options.output or f"{job_name(options.trace)}-{options.to}")
    folder.mkdir(exist_ok=True)
    names = options.table or _TABLES

    def print_table(name: str, rows: int) -> None:
        print_message(f"wrote {folder / name}.{options.to}: {rows} rows")

    write_tables(view, names, folder, options.to, done=print_table)


_WRITERS: Final[Mapping[str, Callable[[View, argparse.Namespace], None]]] = {
    "perfetto": _perfetto,
    "perfetto-manifest": _manifest,
    "parquet": _tables,
    "csv": _tables,
}
