"""``ccltui inspect DIR``: print one event with all that is recorded of it, as text or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, load_job
from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.numbers import decimal_size
from ccltui.report.output import require_target, write_report
from ccltui.report.printable_json import json_bytes
from ccltui.report.text_layout import table, text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.inspection.event_facts import EventReport, Fact, Value


_NS: Final = 1_000


def as_table(report: EventReport) -> bytes:
    """Return the facts, those that are not recorded with the reason, and the related events."""
    rows = [[fact.name, _text(fact)] for fact in report.facts]
    links = [
        [
            one.relation,
            one.event.rank,
            f"{one.event.group} {one.event.row}",
            numbers.instant(one.start_ns, _NS),
            numbers.duration(one.dur_ns),
            one.name,
            one.note,
        ]
        for one in report.links
    ]
    event = report.event
    lines = [f"rank {event.rank} {event.group} {event.row}: {report.name}", ""]
    lines += table(["fact", "value"], rows)
    if links:
        heading = ["related", "rank", "event", "start", "duration", "name", ""]
        lines += ["", *table(heading, links)]
    return text_bytes(lines)


def _text(fact: Fact) -> str:
    if fact.value is None:
        return f"not recorded: {fact.why}"
    return _value(fact.value, fact.unit)


def _value(value: Value, unit: str) -> str:
    if isinstance(value, tuple):
        return " < ".join(value)
    if isinstance(value, float):
        return f"{value:.4g} {unit}".rstrip()
    if isinstance(value, int) and unit == "ns":
        return numbers.duration(value)
    if isinstance(value, int) and unit == "bytes":
        return decimal_size(value)
    if isinstance(value, int) and unit:
        return numbers.instant(value, _NS)
    return str(value)


def as_json(report: EventReport) -> bytes:
    """Return the report as a JSON document."""
    return json_bytes(report.document(), indent=True)


WRITERS: Final[Mapping[str, Callable[[EventReport], bytes]]] = {
    "table": as_table,
    "json": as_json,
}


_DESCRIPTION = """\
Print all that is recorded of one event: times on the corrected clock, launch and queue delay,
grid, block, registers, operator with its shapes, ranges, Python stack, and the arguments of a
collective, with the same collective on other ranks. What is not recorded is listed with the
reason. The event is the longest one whose name matches, unless --nth or --row chooses another."""
_FORMATS: Final = ("table", "json")
_GROUPS: Final = ("gpu", "runtime", "cpu_ops", "annotations", "python")


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui inspect``."""
    result = args.of_verb("inspect", _DESCRIPTION)
    result.add_argument("trace", metavar="DIR", help="trace directory, or one trace file")
    event = result.add_argument_group("event")
    event.add_argument("--rank", metavar="RANK", help="rank of the event; default: the first")
    event.add_argument(
        "--name", default="", metavar="REGEX", help="regular expression that its name contains"
    )
    place = event.add_mutually_exclusive_group()
    place.add_argument(
        "--nth",
        type=args.grammar(args.positive),
        metavar="N",
        help="the N-th of them in order of time, from 1; default: the longest",
    )
    place.add_argument(
        "--row",
        type=args.grammar(args.natural),
        metavar="N",
        help="row of its kind, as the related events are printed with",
    )
    event.add_argument(
        "--kind",
        choices=_GROUPS,
        default="gpu",
        help="gpu: device work; runtime: calls of CUDA or HIP; cpu_ops: operators; annotations: "
        "ranges; python: frames; default: gpu",
    )
    args.add_output(result, _FORMATS, "table")
    return args.completed(result, args.add_capture, args.add_selection, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui inspect`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    args.settle_format(options, _FORMATS, "table")
    require_target(options.output)
    loaded = load_job(LoadOptions.of(options.trace, options))
    # A wrong command line is refused before numpy is imported.
    from ccltui.metrics.inspection.event_facts import EventRef  # noqa: PLC0415
    from ccltui.metrics.inspection.event_report import (  # noqa: PLC0415
        find_event,
        inspect_event,
    )
    from ccltui.metrics.view.job_view import View  # noqa: PLC0415

    view = View(loaded.job, args.selection_of(options))
    rank = options.rank if options.rank is not None else next(iter(view.facts.ranks), "")
    event = (
        find_event(view, rank, options.kind, pattern=options.name, number=options.nth)
        if options.row is None
        else EventRef.of(rank, options.kind, options.row)
    )
    try:
        report = inspect_event(view, event)
    except (KeyError, IndexError) as error:
        raise GrammarError(str(error.args[0])) from error
    write_report(WRITERS[options.format](report), options.output)
    return exit_codes.OK if loaded.complete else exit_codes.INTERRUPTED
