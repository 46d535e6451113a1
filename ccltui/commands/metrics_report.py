"""``ccltui metrics-report DIR…``: print every metric of many directories as one table."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ccltui import arguments as args
from ccltui import exit_codes, slow_path
from ccltui.commands.function_files import add_functions, use_functions
from ccltui.commands.loading import LoadOptions
from ccltui.commands.measure import ALL_METRICS, check_overrides, choose_metrics
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError, TraceError, internal_error
from ccltui.report.catalogue import FACTS, WRITERS, Catalogue, MetricColumn, Outcome, Row
from ccltui.report.output import print_message, require_target, write_report

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.registry import Functions
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.job import Job

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
    from ccltui.parsers.system.machine_limits import MAX_WORKERS, allowed_cpus  # noqa: PLC0415

    workers = min(jobs or min(allowed_cpus(), MAX_WORKERS), len(tasks))
    if workers < 2:
        return [measure_directory(task) for task in tasks]
    # Each process reads its files without further processes.
    alone = [structs.replace(one, loading=one.loading.changed(jobs=1)) for one in tasks]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
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
