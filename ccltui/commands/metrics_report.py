"""``ccltui metrics-report DIR…``: print every metric of many directories as one table."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field, structs

from ccltui import arguments as args
from ccltui import exit_codes, slow_path
from ccltui.commands.loading import LoadOptions, add_functions, use_functions
from ccltui.commands.measure import ALL_METRICS, check_overrides, choose_metrics
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError, TraceError, internal_error
from ccltui.report.output import print_message, require_target, write_report
from ccltui.report.result_rows import cell_text, csv_text
from ccltui.report.text_layout import code, escaped, markdown_table, table, text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.registry import Functions
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.job import Job

SCHEMA_VERSION: Final = 1
FACTS: Final = (
    "model_family",
    "phase",
    "moe",
    "precision",
    "framework",
    "gpu_model",
    "total_count",
    "batch_size",
    "seq_len",
    "dp_replicate",
    "dp_shard",
    "tp",
    "pp",
    "cp",
    "ep",
)
"""Fields of the workload card that distinguish workloads."""
TRACE_FACTS: Final = (
    *("device", "hosts", "ranks", "world_size", "profiler", "capture", "card_problem"),
)
"""Facts about the traces: device names, number of hosts and ranks, profiler, capture."""
CATEGORIES: Final = (
    *("throughput", "time", "communication", "stragglers", "kernels", "memory"),
    *("experts", "inference", "runs", "cluster"),
)
"""Order of the categories of metrics; others follow."""

_BETTER: Final = {True: "↑", False: "↓", None: ""}


class MetricColumn(Struct, frozen=True):
    """Display properties of one metric; the names are those of the JSON form."""

    name: str
    label: str
    unit: str
    higher_is_better: bool | None
    category: str
    definition: str

    @property
    def column(self) -> str:
        """Heading of its column."""
        return f"{self.name} [{self.unit}]"


class Outcome(Struct, frozen=True):
    """Value of one metric for one directory, or the reason why there is none.

    ``parts`` are the shares that the value consists of by name, the largest first.
    """

    value: float | int | None
    status: str
    reason: str | None = None
    message: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with ``parts`` where there are any."""
        document = structs.asdict(self)
        if not self.parts:
            del document["parts"]
        return document

    @property
    def parts_text(self) -> str:
        """The parts in percent: ``tp 60 %, dp 40 %``; "" without any."""
        return ", ".join(f"{name} {100 * share:.3g} %" for name, share in self.parts.items())


class Row(Struct, frozen=True):
    """One directory.

    Attributes:
        directory: Its path.
        facts: Facts of the card and of the traces by name.
        outcomes: Results by name of the metric.
        problem: Reason why nothing could be opened.
        lost: Problems of files that could not be inspected, see
            :class:`ccltui.parsers.ingest.load.Failed`.
    """

    directory: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    problem: str | None = None
    lost: tuple[str, ...] = ()


class Catalogue(Struct, frozen=True):
    """All directories, in the order given, and the metrics that were computed."""

    metrics: Sequence[MetricColumn]
    rows: Sequence[Row]


Writer = Callable[[Catalogue], bytes]


def write_csv(catalogue: Catalogue) -> bytes:
    """Csv with a line per directory; an absent value is an empty cell.

    Values that consist of named parts have these in a further column.
    The last columns list partial and unavailable metrics with their reasons, and the problem.
    """
    columns = [metric.column for metric in catalogue.metrics]
    names = [metric.name for metric in catalogue.metrics]
    divided = [one for one in names if any(_parts_text(row, one) for row in catalogue.rows)]
    columns += [f"{name} by part" for name in divided]
    rows = [["directory", *FACTS, *TRACE_FACTS, *columns, "partial", "unavailable", "problem"]]
    rows += [
        [
            row.directory,
            *(cell_text(row.facts.get(name)) for name in (*FACTS, *TRACE_FACTS)),
            *(cell_text(_value(row, metric)) for metric in catalogue.metrics),
            *(_parts_text(row, name) for name in divided),
            _reasons(row, "partial"),
            _reasons(row, "unavailable"),
            row.problem or "",
        ]
        for row in catalogue.rows
    ]
    return csv_text(rows).encode()


def write_json(catalogue: Catalogue) -> bytes:
    """One JSON document: display properties of every metric, then the directories."""
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415  (orjson)

    rows = [
        {
            "directory": row.directory,
            "problem": row.problem,
            "facts": dict(row.facts),
            "results": {name: outcome.to_dict() for name, outcome in row.outcomes.items()},
        }
        for row in catalogue.rows
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "metrics": [structs.asdict(metric) for metric in catalogue.metrics],
        "rows": rows,
    }
    return json_bytes(document, indent=True)


def write_markdown(catalogue: Catalogue) -> bytes:
    """Markdown with a line per metric and a column per directory; arrows show which way is better.

    The reasons of partial and unavailable values follow below the table.
    """
    header, body = _transposed(catalogue)
    notes = [f"- {code(name)}{escaped(note)}" for name, note in _notes(catalogue)]
    return _with_notes(markdown_table(header, body), notes)


def write_table(catalogue: Catalogue) -> bytes:
    """The table of write_markdown as aligned text."""
    notes = [f"`{name}`{note}" for name, note in _notes(catalogue)]
    return _with_notes(table(*_transposed(catalogue)), notes)


def _with_notes(lines: Sequence[str], notes: Sequence[str]) -> bytes:
    return text_bytes([*lines, "", _LEGEND, *([""] if notes else []), *notes])


_LEGEND: Final = (
    "↑ higher is better, ↓ lower is better, * covers a part of the input, – unavailable"
)


def _notes(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield each directory with its problem, or the reasons of partial and unavailable values."""
    for row in catalogue.rows:
        if row.problem:
            yield row.directory, f": {row.problem}"
            continue
        for status in ("partial", "unavailable"):
            reasons: dict[str, list[str]] = {}
            for metric in catalogue.metrics:
                outcome = row.outcomes.get(metric.name)
                if outcome is not None and outcome.status == status:
                    reasons.setdefault(outcome.reason or status, []).append(metric.name)
            text = "; ".join(f"{reason} ({', '.join(names)})" for reason, names in reasons.items())
            if text:
                yield row.directory, f" {status}: {text}"


WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "markdown": write_markdown,
    "csv": write_csv,
    "json": write_json,
}


def _transposed(catalogue: Catalogue) -> tuple[list[str], list[list[str]]]:
    """Header and lines with a column per directory: facts first, then metrics by category."""
    header = ["category", "metric", "unit", *(row.directory for row in catalogue.rows)]
    facts = [name for name in (*FACTS, *TRACE_FACTS) if any(_fact(r, name) for r in catalogue.rows)]
    body = [["facts", name, "", *(_fact(row, name) for row in catalogue.rows)] for name in facts]
    order = list(dict.fromkeys((*CATEGORIES, *(one.category for one in catalogue.metrics))))
    for metric in sorted(catalogue.metrics, key=lambda metric: order.index(metric.category)):
        title = f"{metric.label} {_BETTER[metric.higher_is_better]}".strip()
        cells = [_short(row, metric) for row in catalogue.rows]
        body.append([metric.category, title, metric.unit, *cells])
    return header, body


def _fact(row: Row, name: str) -> str:
    return cell_text(row.facts.get(name))


def _value(row: Row, metric: MetricColumn) -> float | int | None:
    outcome = row.outcomes.get(metric.name)
    return None if outcome is None else outcome.value


def _short(row: Row, metric: MetricColumn) -> str:
    """Value with six digits for people; a star marks a partial value."""
    outcome = row.outcomes.get(metric.name)
    if outcome is None or outcome.value is None:
        return "–"
    value = outcome.value
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text += "*" if outcome.status == "partial" else ""
    return f"{text} ({outcome.parts_text})" if outcome.parts else text


def _parts_text(row: Row, name: str) -> str:
    outcome = row.outcomes.get(name)
    return "" if outcome is None else outcome.parts_text


def _reasons(row: Row, status: str) -> str:
    found = [(name, out) for name, out in row.outcomes.items() if out.status == status]
    return "; ".join(f"{name}: {outcome.reason}" for name, outcome in found)


_USAGE = "ccltui metrics-report DIR [DIR …] [options]"
_DESCRIPTION = """\
Compute metrics for many trace directories at once and print one table: the key facts of each
directory's workload card, and the value of every metric."""
_EPILOG = """\
The exit status is 1 when no directory could be opened; a metric that is unavailable for a
directory is an empty cell, with its reason in csv and json."""


class Task(Struct, frozen=True):
    """One directory, and the metrics to compute for it."""

    loading: LoadOptions
    selection: ViewOptions
    metrics: tuple[str, ...]
    functions: Functions | None = None


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui metrics-report``."""
    result = args.of_verb("metrics-report", _DESCRIPTION, _EPILOG, _USAGE)
    result.add_argument("traces", nargs="+", metavar="DIR", help="trace directories, or files")
    args.add_metric(result, "only this metric; may be repeated; default: all")
    add_functions(result)
    args.add_output(
        result,
        WRITERS,
        "table",
        "csv and json: a line per directory; table and markdown: a column per directory; ",
    )
    return args.completed(result, args.add_selection, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui metrics-report`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    args.settle_format(options, WRITERS, "table")
    functions = use_functions(options)
    metrics = choose_metrics(options.metric or [ALL_METRICS])
    selection = args.selection_of(options)
    check_overrides(selection.overrides, metrics)
    require_target(options.output)
    names = tuple(metric.name for metric in metrics)
    loading = LoadOptions(
        "", cache_dir=options.cache_dir, no_cache=options.no_cache, jobs=options.jobs
    )
    tasks = [
        Task(loading.changed(path=path), selection, names, functions) for path in options.traces
    ]
    rows = _measured(tasks, options.jobs)
    for row in rows:
        for text in (*row.lost, *(() if row.problem is None else (row.problem,))):
            print_message(text)
    catalogue = Catalogue([_shown(metric) for metric in metrics], rows)
    write_report(WRITERS[options.format](catalogue), options.output)
    opened = any(row.problem is None for row in rows)
    if opened:
        slow_path.warn()
    is_whole = not any(row.lost for row in rows)
    return exit_codes.OK if opened and is_whole else exit_codes.INPUT


def _measured(tasks: Sequence[Task], jobs: int | None) -> list[Row]:
    """Measure all tasks, several at a time in processes; return rows in the order of the tasks."""
    from ccltui.parsers.ingest.worker_pool import Executor  # noqa: PLC0415
    from ccltui.parsers.machine_limits import MAX_WORKERS, allowed_cpus  # noqa: PLC0415

    workers = min(jobs or min(allowed_cpus(), MAX_WORKERS), len(tasks))
    if workers < 2:
        return [measure_directory(task) for task in tasks]
    # Each process reads its files without further processes.
    alone = [structs.replace(one, loading=one.loading.changed(jobs=1)) for one in tasks]
    context = multiprocessing.get_context("spawn")
    pool = Executor(workers, mp_context=context, initializer=_ignore_interrupts)
    try:
        futures = [pool.submit(measure_directory, task) for task in alone]
        return [_row(task, future) for task, future in zip(tasks, futures, strict=True)]
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ignore SIGINT, which reaches the whole process group: the parent process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _row(task: Task, future: Any) -> Row:
    try:
        row: Row = future.result()
    except BrokenProcessPool:
        path = task.loading.path
        return Row(path, problem=f"{path}: the measuring process was killed (out of memory?)")
    except GrammarError:
        raise
    except Exception as error:  # a failure must not stop the other directories
        problem = f"{task.loading.path}: {internal_error(error)}"
        return Row(task.loading.path, problem=problem)
    return row


def measure_directory(task: Task) -> Row:
    """Open one directory and compute its row. Also runs in worker processes."""
    from ccltui.commands.loading import load_job  # noqa: PLC0415
    from ccltui.commands.measure import view_of  # noqa: PLC0415
    from ccltui.metrics import registry  # noqa: PLC0415

    if task.functions is not None:
        registry.use_functions(task.functions)
    path = task.loading.path
    try:
        loaded = load_job(task.loading)
    except GrammarError:
        raise
    except (TraceError, OSError) as error:
        return Row(path, problem=str(error))
    view = view_of(loaded, task.selection)
    outcomes = {name: _outcome(registry.find(name), view) for name in task.metrics}
    problem = _problem(loaded.job, outcomes)
    lost = tuple(one.error for one in loaded.job.failures if one.is_lost)
    return Row(path, _facts(view), outcomes, problem, lost if problem is None else ())


def _outcome(metric: Metric, view: Any) -> Outcome:
    result = metric.run(view)
    first = result.reasons[0] if result.reasons else None
    return Outcome(
        result.value,
        result.status,
        None if first is None else first.code,
        None if first is None else first.message,
        _parts(result.details.get(metric.parts)),
    )


def _parts(shares: object) -> dict[str, float]:
    """Known shares above 0 of the parts of a value, the largest first."""
    if not isinstance(shares, Mapping):
        return {}
    known = {name: share for name, share in shares.items() if share}
    return dict(sorted(known.items(), key=lambda pair: -pair[1]))


def _problem(job: Job, outcomes: Mapping[str, Outcome]) -> str | None:
    """Reason why a directory that could be listed has no data for any metric, else None."""
    if job.ranks or any(outcome.value is not None for outcome in outcomes.values()):
        return None
    if job.failures:
        return "; ".join(failure.error for failure in job.failures[:4])
    return f"{job.path}: no trace"


def _facts(view: View) -> dict[str, Any]:
    """Key facts of the card and of the traces."""
    from ccltui.metrics.workload.hardware import device_names  # noqa: PLC0415

    job = view.job
    hosts = {trace.host for trace in job.ranks if trace.host}
    stated = {} if job.card is None else {name: getattr(job.card, name, None) for name in FACTS}
    return {
        **stated,
        "device": ", ".join(device_names(view)) or None,
        "hosts": len(hosts) or None,
        "ranks": len(job.ranks),
        "world_size": job.world_size,
        "profiler": job.capture.source if job.ranks else None,
        "capture": job.capture.name or None,
        "card_problem": job.card_problem,
    }


def _shown(metric: Metric) -> MetricColumn:
    return MetricColumn(
        name=metric.name,
        label=metric.title,
        unit=metric.unit,
        higher_is_better=metric.higher_is_better,
        category=metric.category,
        definition=metric.definition,
    )
